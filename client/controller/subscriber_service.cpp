#include "client/controller/subscriber_service.h"

#include <iterator>
#include <utility>

#include "client/controller/actors_name.h"
#include "common/base/log.h"
#include "common/wire/wire_region.h"
#include "common/wire/wire_values.h"
#include "meshbus/name.h"
#include "wire/actors_generated.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kMostSubscriptions = 10'000;
/// A launcher subscribes to each of its meshes.
constexpr std::size_t kMostOfOne = 1000;
constexpr flatbuffers::uoffset_t kMostBlocks = 10'000;
/// Meshes in one message: it stays well below the limit.
constexpr std::size_t kMostMeshes = 1000;

/// `mesh`: of procs, or of actors.
template <typename Mesh>
wire::MeshOverviewT overview_of(const Mesh& mesh) {
  wire::MeshOverviewT overview;
  overview.mesh = mesh.mesh();
  overview.overall = static_cast<wire::StatusKind>(mesh.overall());
  overview.generation = mesh.generation();
  overview.monitored = mesh.is_monitored();
  overview.ranks = mesh.size();
  overview.live = mesh.live();
  overview.unheard = mesh.unheard();
  overview.failed = mesh.failed();
  return overview;
}

void add_owner(wire::MeshOverviewT& overview, const MeshController& mesh,
               const Supervisor& supervisor) {
  overview.owned = supervisor.is_owned(mesh);
  const auto* const owner = supervisor.owner_of(mesh);
  if (owner == nullptr) return;
  overview.ownership = std::make_unique<wire::OwnershipT>();
  overview.ownership->owner = owner->owner;
  overview.ownership->lease_ms = static_cast<std::uint32_t>(owner->lease.count());
  overview.ownership->loss = owner->loss;
  overview.ownership->gone = owner->is_gone;
}

/// Errors: out_of_range.
Result<RankSet> ranks_of(const wire::Subscribe& message) {
  RankSet ranks;
  const auto* const blocks = message.ranks();
  if (blocks == nullptr) return ranks;
  if (text_of(message.mesh()).empty() || blocks->size() > kMostBlocks)
    return fail(ErrorCode::out_of_range, "Subscribe.ranks: ranks of one mesh, in at most " +
                                             std::to_string(kMostBlocks) + " blocks");
  for (const auto* block : *blocks) {
    const bool is_behind = ranks.empty() || block->begin() >= ranks.back().end;
    if (block->begin() >= block->end() || !is_behind)
      return fail(ErrorCode::out_of_range,
                  "Subscribe.ranks: blocks are disjoint, ascending and not empty");
    ranks.push_back({block->begin(), block->end()});
  }
  return ranks;
}

std::vector<std::string> to_texts(const std::vector<HostAddr>& hosts) {
  std::vector<std::string> texts;
  for (const auto& host : hosts) texts.push_back(host.to_string());
  return texts;
}

}  // namespace

void SubscriberService::tell(const std::vector<WatchEvent>& events) {
  if (seat_.has_pair()) history_.add(events, reactor_.now());
  // One that has just woken may not know yet that it stands by: its subscribers hear this from the
  // one that acts.
  if (!seat_.may_act()) return;
  for (const auto& subscriber : subscriptions_.subscribers())
    send(subscriber, subscriptions_.for_subscriber(subscriber, events), Telling::news);
}

void SubscriberService::on_undeliverable(const wire::Envelope& envelope, const Error& error) {
  // Messages that were lost on their way are missed, and asked for; only subscribers that are gone
  // are forgotten.
  if (error.code() == ErrorCode::queue_full || error.code() == ErrorCode::fate_unknown) return;
  if (subscriptions_.drop(envelope.destination_proc()))
    log::info("a subscriber cannot be reached and is dropped: " + error.to_string());
}

void SubscriberService::send(const ProcId& subscriber, const std::vector<WatchEvent>& events,
                             Telling telling) {
  for (auto& message : to_messages(events, supervisor_.polls(), telling == Telling::snapshot)) {
    message.replayed = telling == Telling::replay;
    message.sequence = subscriptions_.next_sequence(subscriber);
    if (gateway_.bus() != nullptr &&
        gateway_.bus()->tell(Destination::to(subscriber), std::move(message)))
      continue;
    // The next heartbeat says that something is missing.
    log::warn("the queue to the broker is full: " + subscriber.to_string() + " misses events");
  }
}

void SubscriberService::send_known(const ProcId& subscriber, const std::string& mesh,
                                   const RankSet& ranks) {
  for (const auto& [name, known] : supervisor_.meshes()) {
    if (mesh.empty() || mesh == name) send(subscriber, known.known(ranks), Telling::snapshot);
  }
  if (const auto* const actors = supervisor_.find_actors(mesh))
    send(subscriber, actors->known(ranks), Telling::snapshot);
}

void SubscriberService::send_heartbeats() {
  const auto unreachable = to_texts(supervisor_.unreachable());
  for (const auto& subscriber : subscriptions_.subscribers()) {
    wire::MeshHeartbeatT heartbeat;
    heartbeat.poll = supervisor_.polls();
    heartbeat.interval_ms = static_cast<std::uint32_t>(poll_.count());
    heartbeat.sequence = subscriptions_.sequence(subscriber);
    heartbeat.late_polls = supervisor_.late_polls();
    heartbeat.unreachable = unreachable;
    const auto add = [&](const auto& mesh) {
      if (!mesh.is_monitored() || !subscriptions_.hears_of(subscriber, mesh.mesh())) return;
      if (heartbeat.meshes.size() < kMostMeshes) {
        heartbeat.meshes.push_back(std::make_unique<wire::MeshOverviewT>(overview_of(mesh)));
      } else {
        ++heartbeat.cut;
      }
    };
    for (const auto& [name, mesh] : supervisor_.meshes()) add(mesh);
    for (const auto& [name, actors] : supervisor_.actors()) add(actors);
    if (gateway_.bus() != nullptr)
      gateway_.bus()->tell(Destination::to(subscriber), std::move(heartbeat));
  }
}

std::optional<ProcId> SubscriberService::check_subscriber(const Request& request,
                                                          const flatbuffers::String* text) {
  const auto subscriber = ProcId::parse(text->string_view());
  if (!subscriber) {
    gateway_.bus()->refuse(request, subscriber.error().within("subscriber"));
    return std::nullopt;
  }
  if (subscriber->key() != request.envelope.source_proc() ||
      subscriber->host().key() != request.envelope.source_host()) {
    gateway_.bus()->refuse(request, Error(ErrorCode::unauthorised,
                                          "the subscriber is " + subscriber->to_string() +
                                              ", who did not send this: subscribe for yourself"));
    return std::nullopt;
  }
  return *subscriber;
}

Supervisor::Actions SubscriberService::on_subscribe(const Request& request,
                                                    const wire::Subscribe& message) {
  const auto subscriber = check_subscriber(request, message.subscriber());
  if (!subscriber) return {};
  const auto refuse = [&](const Error& error) {
    gateway_.bus()->refuse(request, error);
    return Supervisor::Actions();
  };
  if (const auto acts = seat_.check(); !acts) return refuse(acts.error());
  const auto mesh = text_of(message.mesh());
  auto ranks = ranks_of(message);
  if (!ranks) return refuse(ranks.error());
  // One that is there is asked for again and again, and stays.
  if (!subscriptions_.has(*subscriber, mesh)) {
    if (subscriptions_.size() >= kMostSubscriptions)
      return refuse(Error(ErrorCode::queue_full, "this controller has " +
                                                     std::to_string(kMostSubscriptions) +
                                                     " subscriptions; that is its limit"));
    if (subscriptions_.count_of(*subscriber) >= kMostOfOne)
      return refuse(Error(ErrorCode::queue_full, subscriber->to_string() + " has " +
                                                     std::to_string(kMostOfOne) +
                                                     " subscriptions; that is the limit of one"));
  }
  Supervisor::Actions begun;
  std::string procs = mesh;
  if (ActorsName::is_meant(mesh)) {
    const auto name = ActorsName::parse(mesh);
    if (!name) return refuse(name.error().within("Subscribe.mesh"));
    auto actions = supervisor_.watch_actors(*name, reactor_.now());
    if (!actions) return refuse(actions.error());
    begun = std::move(*actions);
    procs = name->mesh().to_string();
  } else if (!mesh.empty()) {
    if (const auto name = Name::parse(mesh); !name)
      return refuse(name.error().within("Subscribe.mesh"));
  }
  const bool is_new = subscriptions_.add(*subscriber, mesh, *ranks);
  gateway_.bus()->answer(request, wire::AckT());
  if (message.moved())
    send(*subscriber, subscriptions_.for_subscriber(*subscriber, history_.events()),
         Telling::replay);
  if (is_new || message.again()) send_known(*subscriber, mesh, *ranks);
  // A subscriber to a mesh that has just been made does not wait for the next poll.
  if (is_new && !procs.empty() && supervisor_.find(procs) == nullptr) {
    auto polled = supervisor_.poll_now(reactor_.now());
    std::move(polled.questions.begin(), polled.questions.end(),
              std::back_inserter(begun.questions));
  }
  return begun;
}

void SubscriberService::on_unsubscribe(const Request& request, const wire::Unsubscribe& message) {
  const auto subscriber = check_subscriber(request, message.subscriber());
  if (!subscriber) return;
  subscriptions_.remove(*subscriber, text_of(message.mesh()));
  gateway_.bus()->answer(request, wire::AckT());
}

void SubscriberService::on_get_subscriber_count(const Request& request,
                                                const wire::GetSubscriberCount& message) {
  wire::SubscriberCountT count;
  count.count = subscriptions_.count(text_of(message.mesh()));
  gateway_.bus()->answer(request, count);
}

wire::ControllerStateT SubscriberService::make_state() const {
  wire::ControllerStateT state;
  state.controller = gateway_.self().to_string();
  state.poll = supervisor_.polls();
  state.interval_ms = static_cast<std::uint32_t>(poll_.count());
  state.late_polls = supervisor_.late_polls();
  state.subscribers = subscriptions_.count({});
  state.unreachable = to_texts(supervisor_.unreachable());
  state.hosts = to_texts(supervisor_.owned_hosts());
  if (seat_.has_pair()) {
    state.pair = seat_.pair();
    state.term = seat_.term();
    state.stands_by = !seat_.is_acting();
    state.acting = seat_.actor();
  }
  return state;
}

void SubscriberService::on_get_state(const Request& request, const wire::GetState& message) {
  const auto* const mesh = supervisor_.find(message.mesh()->string_view());
  const auto* const actors = supervisor_.find_actors(message.mesh()->string_view());
  if (mesh == nullptr && actors == nullptr)
    return gateway_.bus()->refuse(
        request, Error(ErrorCode::not_exist,
                       "this controller knows no mesh '" + message.mesh()->str() + "'" +
                           (ActorsName::is_meant(message.mesh()->string_view())
                                ? " of actors that somebody subscribes to"
                                : "")));
  auto state = make_state();
  const auto describe = [&state](const auto& one) -> wire::MeshOverviewT& {
    auto& overview =
        *state.meshes.emplace_back(std::make_unique<wire::MeshOverviewT>(overview_of(one)));
    if (one.region() != nullptr) overview.region = to_wire(*one.region());
    overview.statuses = std::make_unique<wire::StatusOverlayT>(to_wire(one.statuses()));
    return overview;
  };
  if (actors != nullptr) {
    describe(*actors);
  } else {
    add_owner(describe(*mesh), *mesh, supervisor_);
  }
  gateway_.bus()->answer(request, std::move(state));
}

void SubscriberService::on_list_meshes(const Request& request, const wire::ListMeshes& message) {
  auto state = make_state();
  const auto& meshes = supervisor_.meshes();
  for (auto entry = meshes.upper_bound(text_of(message.after())); entry != meshes.end(); ++entry) {
    if (state.meshes.size() >= kMostMeshes) {
      state.more = true;
      break;
    }
    state.meshes.push_back(std::make_unique<wire::MeshOverviewT>(overview_of(entry->second)));
    if (entry->second.region() != nullptr)
      state.meshes.back()->region = to_wire(*entry->second.region());
    add_owner(*state.meshes.back(), entry->second, supervisor_);
  }
  gateway_.bus()->answer(request, std::move(state));
}

}  // namespace meshbus

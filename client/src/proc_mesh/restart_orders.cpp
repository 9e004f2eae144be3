#include "client/src/proc_mesh/restart_orders.h"

#include <algorithm>
#include <utility>

#include "client/src/base/unclear_answer.h"
#include "client/src/base/wire_reports.h"
#include "common/base/log.h"
#include "common/wire/wire_region.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;

constexpr auto kHostLimit = 5s;
/// From a refusal (the former life is not over yet) to the next question: doubled each time.
constexpr auto kFirstWait = 20ms;
constexpr auto kLongestWait = 500ms;

std::uint64_t restarts_of(const wire::MeshState& state, std::uint64_t rank) {
  for (flatbuffers::uoffset_t i = 0; state.ranks() != nullptr && i < state.ranks()->size(); ++i) {
    if (state.ranks()->Get(i)->rank() == rank) return state.ranks()->Get(i)->restarts();
  }
  return 0;
}

}  // namespace

RestartOrders::RestartOrders(ContextCore& core, Connection& connection,
                             std::weak_ptr<MeshMonitor> monitor, Messages messages)
    : core_(core),
      connection_(connection),
      monitor_(std::move(monitor)),
      messages_(std::move(messages)) {
  // What is left of stdin is not for a new life, which begins from the beginning: it reads
  // /dev/null.
  for (auto& [host, message] : messages_) message.input_ranks.clear();
}

std::shared_ptr<MeshMonitor> RestartOrders::find_monitor() const {
  auto monitor = monitor_.lock();
  return monitor == nullptr || monitor->progress().is_abandoned() ? nullptr : monitor;
}

template <typename Function>
void RestartOrders::after(std::chrono::milliseconds delay, Function function) {
  core_.reactor().after(delay, [weak = weak_from_this(), function = std::move(function)] {
    const auto self = weak.lock();
    if (self != nullptr && self->find_monitor() != nullptr) function(*self);
  });
}

void RestartOrders::resize(const MeshLayout& layout, Messages added) {
  for (auto& [host, message] : added) messages_.insert_or_assign(host, std::move(message));
  messages_.erase(messages_.lower_bound(layout.hosts.size()), messages_.end());
  for (auto& [host, message] : messages_) {
    message.input_ranks.clear();
    message.region = meshbus::to_wire(layout.region);
    message.hosts.clear();
    for (const auto& address : layout.hosts) message.hosts.push_back(address.to_string());
    message.revision = layout.revision;
  }
}

void RestartOrders::start(const std::vector<std::uint64_t>& ranks) {
  start(ranks, {}, {});
}

void RestartOrders::start_moved(const RestartJudge::Move& move) {
  start(move.ranks, move.from.to_string(), move.reason);
}

void RestartOrders::start(const std::vector<std::uint64_t>& ranks, const std::string& from,
                          const std::string& because) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  const auto table = monitor->progress().table();
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint64_t>> parts;
  for (const auto rank : ranks)
    parts[{table.rank(rank).host_index, table.rank(rank).restarts}].push_back(rank);
  for (auto& [key, of_part] : parts)
    ask({.host = key.first,
         .restarts = key.second,
         .ranks = std::move(of_part),
         .moved_from = from,
         .moved_because = because,
         .since = core_.reactor().now(),
         .wait = kFirstWait});
}

void RestartOrders::prune(Part& part, MeshMonitor& monitor) const {
  std::vector<std::uint64_t> unwanted;
  std::erase_if(part.ranks, [&](std::uint64_t rank) {
    const auto start = monitor.progress().start_of(rank, part.restarts);
    if (start == MeshProgress::Start::unwanted) unwanted.push_back(rank);
    return start != MeshProgress::Start::wanted;
  });
  monitor.cancel_incarnations(unwanted);
}

void RestartOrders::ask(Part part) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  if (!connection_.gateway().is_up()) return ask_again(std::move(part));
  const auto& host = monitor->mesh().hosts()[part.host];
  const auto to = Destination::to_agent(host);
  if (part.is_unclear) {
    wire::GetStateT get;
    get.mesh = monitor->name();
    connection_.gateway().bus()->request(
        to, std::move(get), kHostLimit,
        [weak = weak_from_this(), part = std::move(part)](const Result<ControlMessage>& answer) {
          if (const auto self = weak.lock()) self->on_state(part, answer);
        });
    return;
  }
  prune(part, *monitor);
  if (part.ranks.empty()) return;
  const auto ranks = to_wire(to_rank_set(part.ranks));
  const auto restarts = static_cast<std::uint32_t>(part.restarts);
  const auto sent = messages_.find(part.host);
  const auto moved_from = part.moved_from;
  const auto moved_because = part.moved_because;
  const auto on_answer = [weak = weak_from_this(),
                          part = std::move(part)](const Result<ControlMessage>& answer) {
    if (const auto self = weak.lock()) self->on_answer(part, answer);
  };
  auto& bus = *connection_.gateway().bus();
  if (sent != messages_.end()) {
    wire::SpawnProcsT message = sent->second;
    message.create_ranks = ranks;
    message.restarts = restarts;
    message.moved_from = moved_from;
    message.moved_because = moved_because;
    bus.request(to, std::move(message), kHostLimit, on_answer);
    return;
  }
  wire::RestartProcsT message;
  message.mesh = monitor->name();
  message.ranks = ranks;
  message.restarts = restarts;
  const auto plan = part_of(monitor->restart_plan(), [&](std::uint64_t rank) {
    const auto index = monitor->mesh().host_index_of(rank);
    return index && monitor->mesh().hosts()[*index] == host;
  });
  message.plan = std::make_unique<wire::RestartPlanT>(meshbus::to_wire(plan, ClockPair::now()));
  bus.request(to, std::move(message), kHostLimit, on_answer);
}

void RestartOrders::on_answer(Part part, const Result<ControlMessage>& answer) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  if (answer) {
    if (!part.moved_from.empty()) monitor->progress().note_accepted(part.host);
    const auto* const accepted = answer->body_as<wire::SpawnAccepted>();
    if (accepted != nullptr && accepted->started() == part.ranks.size()) return;
    // Some were there already: by a question of ours whose answer was lost, or because that host
    // does not know of lives.
    part.is_unclear = true;
    return ask(std::move(part));
  }
  if (answer.error().code() == ErrorCode::would_block) {
    part.since = core_.reactor().now();
    return ask_again(std::move(part));
  }
  if (is_unclear(answer.error().code())) {
    part.is_unclear = true;
    return ask_again(std::move(part));
  }
  prune(part, *monitor);
  monitor->fail_incarnations(part.ranks, answer.error());
}

void RestartOrders::on_state(Part part, const Result<ControlMessage>& answer) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
  if (state != nullptr) {
    const auto& host = monitor->mesh().hosts()[part.host];
    std::erase_if(part.ranks,
                  [&](std::uint64_t rank) { return restarts_of(*state, rank) >= part.restarts; });
    if (!part.moved_from.empty()) monitor->progress().note_accepted(part.host);
    monitor->on_update(host, state->ranks(), state->exit_reports(), state->launch());
    part.is_unclear = false;
    prune(part, *monitor);
    if (core_.reactor().now() - part.since >= core_.config().duration(keys::spawn_idle)) {
      monitor->fail_incarnations(
          part.ranks, Error(ErrorCode::timeout, "host " + host.to_string() +
                                                    " takes the order and does not follow it"));
      return;
    }
  } else if (!answer && answer.error().code() == ErrorCode::not_exist && !part.moved_from.empty()) {
    // The order has not come there.
    part.is_unclear = false;
    const auto sent = messages_.find(part.host);
    if (sent != messages_.end() && owner_for_)
      sent->second.owner = owner_for_(monitor->mesh().hosts()[part.host]);
    prune(part, *monitor);
  } else if (!answer && !is_unclear(answer.error().code())) {
    prune(part, *monitor);
    monitor->fail_incarnations(part.ranks, answer.error());
    return;
  }
  // A host that is silent is lost in the end; then prune() finds these ranks ended.
  if (!part.ranks.empty()) ask_again(std::move(part));
}

void RestartOrders::ask_again(Part part) {
  const auto wait = part.wait;
  part.wait = std::min<std::chrono::milliseconds>(2 * wait, kLongestWait);
  after(wait, [part = std::move(part)](RestartOrders& self) { self.ask(part); });
}

void RestartOrders::stop(const std::vector<std::uint64_t>& ranks, const RankReport& cause) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  const auto table = monitor->progress().table();
  std::map<std::uint64_t, std::vector<std::uint64_t>> by_host;
  for (const auto rank : ranks) by_host[table.rank(rank).host_index].push_back(rank);
  for (auto& [host, here] : by_host)
    order_stop({.host = host, .ranks = std::move(here), .cause = cause});
}

void RestartOrders::order_stop(StopPart part) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  const auto table = monitor->progress().table();
  std::erase_if(part.ranks, [&](std::uint64_t rank) {
    return table.rank(rank).is_terminal() || !table.rank(rank).is_restarting;
  });
  if (part.ranks.empty()) return;
  if (!connection_.gateway().is_up())
    return after(kLongestWait,
                 [part = std::move(part)](RestartOrders& self) { self.order_stop(part); });
  wire::StopProcsT stop;
  stop.mesh = monitor->name();
  stop.ranks = to_wire(to_rank_set(part.ranks));
  stop.reason =
      "to be started anew with rank " + std::to_string(part.cause.rank) + ": " + part.cause.words();
  stop.requester = connection_.self();
  stop.because = part.cause.rank;
  stop.grace_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(monitor->options().grace.count(), 0, UINT32_MAX));
  const auto to = Destination::to_agent(monitor->mesh().hosts()[part.host]);
  connection_.gateway().bus()->request(
      to, std::move(stop), kHostLimit,
      [weak = weak_from_this(), part = std::move(part)](const Result<ControlMessage>& answer) {
        const auto self = weak.lock();
        if (answer || self == nullptr || self->find_monitor() == nullptr) return;
        log::warn("ranks that are to be started anew are not stopped yet: " +
                  answer.error().to_string());
        self->after(kLongestWait, [part](RestartOrders& orders) { orders.order_stop(part); });
      });
}

std::shared_ptr<RestartOrders> follow_restarts(ContextCore& core, Connection& connection,
                                               const std::shared_ptr<MeshMonitor>& monitor,
                                               RestartOrders::Messages messages) {
  const auto orders =
      std::make_shared<RestartOrders>(core, connection, monitor, std::move(messages));
  monitor->set_orders(
      {.start = [orders](const std::vector<std::uint64_t>& ranks) { orders->start(ranks); },
       .stop = [orders](const std::vector<std::uint64_t>& ranks,
                        const RankReport& cause) { orders->stop(ranks, cause); }});
  return orders;
}

}  // namespace meshbus

// Every control message, as a receiver gets it: decoded, every field walked, dispatched to handlers
// that read it as the real ones do, and packed again. Seeds: one message of each kind, with every
// field set.
#include "common/wire/control.h"

#include <chrono>

#include "agent/host/model/mesh_spec.h"
#include "broker/access/admission.h"
#include "client/controller/supervisor.h"
#include "client/controller/watch_feed.h"
#include "client/src/base/wire_reports.h"
#include "client/src/monitors/rank_table.h"
#include "common/wire/dispatcher.h"
#include "common/wire/frame.h"
#include "common/wire/wire_values.h"
#include "tests/fuzz/support.h"
#include "wire/control_generated.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

namespace {

const HostAddr& own_host() {
  static const HostAddr host = *HostAddr::parse("tcp:h1:7420");
  return host;
}

std::string pack(const wire::Control& control) {
  wire::ControlT native;
  control.UnPackTo(&native);
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishControlBuffer(builder, wire::Control::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

/// What is unpacked is packed as a message that says the same.
void check_packing(const ControlMessage& message) {
  // A type that a later version has added cannot be packed; no handler knows it.
  if (message->body_type() == wire::Body::NONE || message->body_type() > wire::Body::MAX) return;
  const auto packed = pack(*message);
  FUZZ_CHECK(packed.size() < 4 * kBodyLimit, "a message that grows when it is copied");
  const auto again = ControlMessage::decode(packed);
  FUZZ_CHECK(again.has_value(), "what we packed ourselves is refused");
  FUZZ_CHECK(pack(**again) == packed, "it changed on the way");
  FUZZ_CHECK((*again)->body_type() == message->body_type(), "another type");
}

void on_hello(const Request&, const wire::Hello& hello) {
  static const Admission closed({own_host(), 1000, false}, TokenMaker(std::string(32, 's')));
  static const Admission open({own_host(), 0, true}, std::nullopt);
  for (const Credentials& credentials :
       {Credentials::of_process(1000, 1), Credentials::of_process(7, 7),
        Credentials::of_address("10.0.0.2"), Credentials::of_address("")}) {
    for (const Admission* admission : {&closed, &open}) {
      const auto identity = admission->admit(hello, credentials);
      FUZZ_CHECK(identity.has_value() || !identity.error().detail().empty(),
                 "a refusal without words");
      FUZZ_CHECK(identity.has_value() || identity.error().detail().size() < 2 * kTextLimit,
                 "a refusal that does not fit into a message");
    }
  }
}

void on_spawn(const Request&, const wire::SpawnProcs& request) {
  const auto spec = host::parse_spawn(request, own_host());
  if (!spec) return;
  FUZZ_CHECK(spec->hosts[spec->host_index] == own_host(), "for another host");
  std::uint64_t ranks = 0;
  for (const auto& block : spec->create_ranks) ranks += block.size();
  FUZZ_CHECK(ranks <= kMostRanksPerHost, "too many ranks");
  FUZZ_CHECK(!host::find_difference(*spec, *spec), "it differs from itself");
}

Supervisor make_supervisor() {
  Supervisor supervisor({.hosts = {own_host()}, .mesh = {}}, Supervisor::Time());
  supervisor.connected(true, Supervisor::Time());
  return supervisor;
}

void on_list(const Request&, const wire::MeshList& list) {
  auto supervisor = make_supervisor();
  const Supervisor::Question question{Supervisor::Question::Kind::list, own_host(), {}, {}};
  const auto first = supervisor.answer(question, to_update(list), Supervisor::Time());
  // The same answer again brings no news.
  for (const auto& event : supervisor.answer(question, to_update(list), Supervisor::Time()).events)
    FUZZ_CHECK(event.kind != WatchEvent::Kind::host_back, "it was not away");
  supervisor.silent(own_host(), "no answer", Supervisor::Time());
  FUZZ_CHECK(!to_messages(first.events, 1, false).empty() || first.events.empty(),
             "an event is lost");
  std::size_t known = 0;
  for (const auto& [name, mesh] : supervisor.meshes()) {
    known += mesh.known().size();
    mesh.statuses();
    mesh.overall();
  }
  FUZZ_CHECK(known <= 200'000, "more than a message can name");
}

void on_state(const Request&, const wire::MeshState& state) {
  if (const auto news = to_update(state)) {
    MeshController mesh(news->mesh,
                        std::make_shared<const std::set<HostAddr>>(std::set<HostAddr>{own_host()}));
    to_messages(mesh.listed(own_host(), *news, {}).events, 1, false);
    to_messages(mesh.answered({MeshController::Order::Kind::state, own_host()}, *news, {}).events,
                1, false);
    to_messages(mesh.turn(MeshController::Time(MeshController::kExitReportLimit)).events, 1, false);
  }
  if (auto report = to_report(state)) {
    merge_into(*report, state);
    for (const auto& rank : report->ranks)
      FUZZ_CHECK(!rank.describe().empty(), "a rank without words");
  }
}

void on_mesh_event(const Request&, const wire::MeshEvent& event) {
  wire::MeshEventT native;
  event.UnPackTo(&native);
  WatchFeed feed;
  feed.on_event(native, {});
  FUZZ_CHECK(feed.on_event(native, {}).empty() || native.sequence == 0,
             "the same again is told again");
}

void on_actor_list(const Request&, const wire::ActorList& list) {
  ActorMeshController actors(
      ActorsName(*Name::parse("trainers-13Se1Maqzryj"), *Name::plain("tally")));
  WatchEvent proc;
  proc.host = own_host();
  proc.rank.mutate_state(wire::ProcState::ready);
  for (const auto& order : actors.procs_told({proc}, {}).orders) {
    to_messages(actors.answered(order, to_update(list.actors()), {}).events, 1, false);
    for (const auto& event : actors.answered(order, to_update(list.actors()), {}).events)
      FUZZ_CHECK(event.kind != WatchEvent::Kind::state, "the same again is told again");
  }
  actors.statuses();
  FUZZ_CHECK(actors.known().size() <= 2, "more than there is");
}

void on_news(const Request&, const wire::StateChanged& news) {
  static const auto mesh = *ProcMeshRef::make(*Name::parse("trainers-13Se1Maqzryj"), {own_host()},
                                              *Extent::parse("x=8"));
  RankTable table(mesh);
  const RankTable::Time now{std::chrono::seconds(10)};
  for (flatbuffers::uoffset_t i = 0; news.launch() != nullptr && i < news.launch()->size(); ++i)
    table.apply(own_host(), *news.launch()->Get(i));
  describe_stuck(table.ranks());
  if (news.ranks() != nullptr) {
    for (const auto* rank : *news.ranks()) table.apply(own_host(), *rank, now);
  }
  if (news.exit_reports() != nullptr) {
    for (const auto* exit_report : *news.exit_reports()) table.apply(own_host(), *exit_report);
  }
  table.next_due(now);
  const auto failures = table.take_failures(now + std::chrono::seconds(1));
  FUZZ_CHECK(failures.size() <= table.size() && table.created() <= table.size(),
             "more ranks than there are");
  FUZZ_CHECK(table.take_failures(now + std::chrono::seconds(2)).empty(), "a failure told twice");
  FUZZ_CHECK(table.is_ended() == table.not_ended({}).empty(), "ended or not");
  table.describe(table.not_ended({}));
  table.outcome();
}

void on_statuses(const Request&, const wire::RankStatuses& message) {
  const auto statuses = from_wire(*message.statuses(), kBodyLimit);
  FUZZ_CHECK(statuses.has_value() || !statuses.error().detail().empty(), "a refusal without words");
  if (statuses) to_string(*statuses);
}

const Dispatcher& dispatcher() {
  static const Dispatcher all = [] {
    Dispatcher rows;
    rows.on<wire::Hello>(Role::none, on_hello)
        .on<wire::SpawnProcs>(Role::operate, on_spawn)
        .on<wire::MeshList>(Role::observe, on_list)
        .on<wire::MeshState>(Role::observe, on_state)
        .on<wire::StateChanged>(Role::host, on_news)
        .on<wire::MeshEvent>(Role::observe, on_mesh_event)
        .on<wire::ActorList>(Role::observe, on_actor_list)
        .on<wire::HostState>(
            Role::observe,
            [](const Request&, const wire::HostState& state) { to_report(own_host(), state); })
        .on<wire::RankStatuses>(Role::observe, on_statuses)
        .on<wire::WaitRankStatus>(Role::observe,
                                  [](const Request&, const wire::WaitRankStatus& wait) {
                                    const auto ranks = host::parse_ranks(wait.ranks(), UINT64_MAX,
                                                                         "WaitRankStatus.ranks");
                                    FUZZ_CHECK(ranks.has_value() || !ranks.error().detail().empty(),
                                               "a refusal without words");
                                  })
        .on<wire::StopProcs>(Role::operate, [](const Request&, const wire::StopProcs& stop) {
          const auto ranks = host::parse_ranks(stop.ranks(), 100, "StopProcs.ranks");
          FUZZ_CHECK(!ranks || ranks->size() <= 100, "more intervals than ranks");
        });
    return rows;
  }();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto message = ControlMessage::decode(fuzz::text_of(data, size));
  if (!message) return 0;
  check_packing(*message);
  Request request{};
  request.head = {(*message)->id(), (*message)->deadline_ms(), (*message)->is_answer()};
  for (const auto role : {Role::none, Role::broker}) {
    request.envelope.mutate_role(role);
    const auto done = dispatcher().dispatch(request, **message);
    FUZZ_CHECK(done.has_value() || !done.error().detail().empty(), "a refusal without words");
  }
  return 0;
}

#include <algorithm>

#include <doctest/doctest.h>

#include "client/controller/actor_mesh_controller.h"
#include "client/controller/event_json.h"
#include "client/controller/subscriptions.h"
#include "client/controller/supervisor.h"
#include "client/controller/watch_feed.h"
#include "wire/actors_generated.h"
#include "wire/supervision_generated.h"

/// In a namespace of their own: what others call alike is compiled with them.
namespace meshbus::test::actors_controlled {

using namespace std::chrono_literals;

using Order = ActorMeshController::Order;
using Actors = std::vector<std::shared_ptr<const wire::ActorStateT>>;

inline const HostAddr kA = *HostAddr::parse("unix:/a");
inline const HostAddr kB = *HostAddr::parse("unix:/b");
inline const Name kMesh = *Name::make("m", 1);
inline const ActorsName kTally(kMesh, *Name::plain("tally"));
inline const ActorMeshController::Time t0{1h};

/// An event of one of four ranks, two on each host.
inline WatchEvent proc(std::uint64_t rank, wire::ProcState state = wire::ProcState::ready,
                       std::uint64_t incarnation = 1) {
  WatchEvent event;
  event.mesh = kMesh.to_string();
  event.host = rank < 2 ? kA : kB;
  event.region = std::make_shared<const Region>(*Extent::parse("host=2,gpu=2"));
  event.rank.mutate_rank(rank);
  event.rank.mutate_generation(is_terminal(state) ? 2 : 1);
  event.rank.mutate_incarnation(incarnation);
  event.rank.mutate_pid(42);
  event.rank.mutate_state(state);
  if (!is_terminal(state)) return event;
  event.rank.mutate_ended_ns(100 - static_cast<std::int64_t>(rank));
  event.rank.mutate_signal(static_cast<std::uint8_t>(state == wire::ProcState::killed ? 9 : 0));
  auto exit_report = std::make_shared<wire::ExitReportT>();
  exit_report->rank = rank;
  exit_report->reason = state == wire::ProcState::killed ? "killed by SIGKILL" : "exit 0";
  exit_report->cause =
      state == wire::ProcState::killed ? wire::Cause::killed_from_outside : wire::Cause::exited;
  event.exit_report = std::move(exit_report);
  return event;
}

inline WatchEvent about_host(WatchEvent::Kind kind, const HostAddr& host) {
  WatchEvent event;
  event.kind = kind;
  event.mesh = kMesh.to_string();
  event.host = host;
  event.problem = "nothing was heard of it";
  return event;
}

inline std::shared_ptr<const wire::ActorStateT> actor(
    std::uint64_t rank, wire::StatusKind status = wire::StatusKind::running,
    std::uint64_t generation = 2) {
  auto state = std::make_shared<wire::ActorStateT>();
  state->name = "tally";
  state->create_rank = rank;
  state->status = status;
  state->generation = generation;
  state->changed_ns = 50;
  if (status == wire::StatusKind::stopped) state->reason = "seen enough";
  if (status == wire::StatusKind::failed) {
    state->reason = "no checkpoint";
    state->message = "add";
    state->causes = {"cannot write", "disk full"};
  }
  return state;
}

inline ActorMeshController::Actions push(ActorMeshController& actors, std::uint64_t rank,
                                         Actors list, std::uint64_t incarnation = 1) {
  const auto& host = rank < 2 ? kA : kB;
  return actors.pushed(ProcId(host, proc_name(kMesh, rank)).key(), host.key(), incarnation,
                       {std::move(list)}, t0);
}

inline ActorMeshController::Actions answer(ActorMeshController& actors, std::uint64_t rank,
                                           Actors list, Order::Kind kind = Order::Kind::stream,
                                           ActorMeshController::Time now = t0) {
  return actors.answered({kind, rank, rank < 2 ? kA : kB, 1}, ActorUpdate{std::move(list)}, now);
}

/// One that knows of four running actors.
inline ActorMeshController running() {
  ActorMeshController actors(kTally);
  actors.procs_told({proc(0), proc(1), proc(2), proc(3)}, t0);
  for (std::uint64_t rank = 0; rank < 4; ++rank) answer(actors, rank, {actor(rank)});
  return actors;
}

inline std::vector<std::string> reasons(const std::vector<WatchEvent>& events) {
  std::vector<std::string> texts;
  for (const auto& event : events)
    texts.push_back(std::to_string(event.rank.rank()) + " " +
                    std::string(state_of_actor(event.rank)) + " " +
                    (event.exit_report == nullptr ? "" : event.exit_report->reason));
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("actors_name: reads what it prints, and is no name of a mesh") {
  CHECK(ActorsName::parse(kTally.to_string())->to_string() == "m-111111111112,tally");
  CHECK(ActorsName::is_meant(kTally.to_string()));
  CHECK_FALSE(ActorsName::is_meant(kMesh.to_string()));
  CHECK(ActorsName::parse("m-111111111112").error().code() == ErrorCode::parse_error);
  CHECK_FALSE(ActorsName::parse("m,9").has_value());
  CHECK_FALSE(ActorsName::parse(",x").has_value());
}

TEST_CASE(
    "actor_controller: every proc that is ready is asked once, and what it says is told once") {
  ActorMeshController actors(kTally);
  const auto asked = actors.procs_told({proc(0), proc(1, wire::ProcState::starting)}, t0);
  CHECK(asked.events.empty());
  REQUIRE(asked.orders.size() == 1);
  CHECK(asked.orders[0].rank == 0);
  CHECK(asked.orders[0].kind == Order::Kind::stream);
  CHECK(actors.procs_told({proc(1)}, t0).orders.size() == 1);
  CHECK(actors.overall() == Status::Kind::unknown);
  const auto told = answer(actors, 0, {actor(0)});
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].mesh == kTally.to_string());
  CHECK(told.events[0].point() == "host=0/2,gpu=0/2");
  CHECK(told.events[0].overall == Status::Kind::running);
  // A child, another name, an older state, another incarnation, an unknown status, and another proc
  // that claims to be it.
  auto child = std::make_shared<wire::ActorStateT>(*actor(0, wire::StatusKind::failed, 9));
  child->pid = 3;
  auto other = std::make_shared<wire::ActorStateT>(*actor(0, wire::StatusKind::failed, 9));
  other->name = "other";
  CHECK(push(actors, 0, {child, other, actor(0), actor(0, static_cast<wire::StatusKind>(77), 9)})
            .events.empty());
  CHECK(push(actors, 0, {actor(0, wire::StatusKind::failed, 9)}, 2).events.empty());
  CHECK(actors
            .pushed(ProcId(kA, proc_name(kMesh, 0)).key(), kB.key(), 1,
                    {{actor(0, wire::StatusKind::failed, 9)}}, t0)
            .events.empty());
  CHECK(actors.live() == 1);
}

TEST_CASE(
    "actor_controller: spec 8.3: an actor's failure is told once, with its causes; the end of its "
    "proc does not hide nor repeat it") {
  auto actors = running();
  const auto failed = push(actors, 1, {actor(1, wire::StatusKind::failed, 3)});
  CHECK(reasons(failed.events) ==
        Texts{"1 failed in message add: no checkpoint; because: cannot write; because: disk full"});
  CHECK(failed.events[0].overall == Status::Kind::failed);
  CHECK(push(actors, 1, {actor(1, wire::StatusKind::failed, 4)}).events.empty());
  CHECK(answer(actors, 1, {actor(1, wire::StatusKind::failed, 4)}).events.empty());
  CHECK(actors.procs_told({proc(1, wire::ProcState::killed)}, t0).events.empty());
  CHECK(actors.failed() == 1);
  CHECK(actors.statuses().find(1)->reason() ==
        "in message add: no checkpoint; because: cannot write; because: disk full");
}

TEST_CASE(
    "actor_controller: spec 8.3: a proc's end is that of its actor, with the proc's exit report; "
    "all of one poll together, causes first") {
  auto actors = running();
  const auto ended =
      actors.procs_told({proc(0, wire::ProcState::killed), proc(2, wire::ProcState::stopped),
                         proc(3, wire::ProcState::killed)},
                        t0);
  CHECK(reasons(ended.events) == Texts{"3 failed its proc has ended: killed by SIGKILL",
                                       "2 stopped its proc has ended: exit 0",
                                       "0 failed its proc has ended: killed by SIGKILL"});
  CHECK(ended.events[0].rank.signal() == 9);
  CHECK(ended.events[0].exit_report->cause == wire::Cause::killed_from_outside);
  CHECK(ended.events[0].actor == nullptr);
  // It comes late, and says what was so before.
  CHECK(push(actors, 0, {actor(0, wire::StatusKind::running, 7)}).events.empty());
  CHECK(actors.live() == 1);
}

TEST_CASE("actor_controller: spec 8.1: what push missed a poll repairs") {
  auto actors = running();
  const auto asked = actors.poll(t0 + 10s);
  CHECK(asked.orders.size() == 4);
  CHECK(actors.poll(t0 + 11s).orders.empty());
  CHECK(reasons(answer(actors, 2, {actor(2, wire::StatusKind::failed, 3)}).events).size() == 1);
  // Ended ones are not asked again, nor those of procs that are not there any more.
  for (const std::uint64_t rank : {0U, 1U, 3U}) answer(actors, rank, {actor(rank)});
  actors.procs_told({proc(3, wire::ProcState::stopped)}, t0);
  CHECK(actors.poll(t0 + 20s).orders.size() == 2);
  // A proc that knows nothing of an actor that lived has forgotten how it ended.
  const auto gone = answer(actors, 0, {});
  REQUIRE(gone.events.size() == 1);
  CHECK(gone.events[0].exit_report->reason.find("how is not known") != std::string::npos);
}

TEST_CASE(
    "actor_controller: what is asked in vain is asked again; a refusal is told once, and about no "
    "rank's state") {
  ActorMeshController actors(kTally);
  actors.procs_told({proc(0)}, t0);
  CHECK(actors.answered({Order::Kind::stream, 0, kA, 1}, fail(ErrorCode::timeout, "no answer"), t0)
            .orders.empty());
  REQUIRE(actors.next_due() == t0 + MeshController::kAskAgain);
  CHECK(actors.turn(t0 + MeshController::kAskAgain).orders.size() == 1);
  const auto refused = actors.answered({Order::Kind::stream, 0, kA, 1},
                                       fail(ErrorCode::no_such_port, "what is that"), t0);
  REQUIRE(refused.events.size() == 1);
  CHECK(refused.events[0].kind == WatchEvent::Kind::query_failed);
  CHECK(refused.events[0].problem.find("rank 0: ") == 0);
  actors.turn(t0 + 2s);
  CHECK(actors
            .answered({Order::Kind::stream, 0, kA, 1},
                      fail(ErrorCode::no_such_port, "what is that"), t0)
            .events.empty());
  // Answers of a rank, or an incarnation, that is not known.
  CHECK(actors.answered({Order::Kind::stream, 7, kA, 1}, fail(ErrorCode::timeout, "no answer"), t0)
            .events.empty());
  CHECK(
      actors.answered({Order::Kind::stream, 0, kA, 5}, ActorUpdate{{actor(0)}}, t0).events.empty());
}

TEST_CASE("actor_controller: spec 8.2: who comes late is told what stands, ends included") {
  auto actors = running();
  push(actors, 1, {actor(1, wire::StatusKind::failed, 3)});
  push(actors, 2, {actor(2, wire::StatusKind::stopped, 3)});
  CHECK(reasons(actors.known()) ==
        Texts{"0 running ", "3 running ",
              "1 failed in message add: no checkpoint; because: cannot write; because: disk full",
              "2 stopped seen enough"});
  CHECK(actors.known({{1, 2}}).size() == 1);
  // So is the controller itself, by the procs and by what had become of them before.
  ActorMeshController late(kTally);
  CHECK(late.procs_told({proc(0), proc(1), proc(2, wire::ProcState::killed), proc(3)}, t0)
            .events.empty());
  const auto told = answer(late, 1, {actor(1, wire::StatusKind::failed, 3)});
  CHECK(told.events.size() == 2);
  CHECK(reasons(late.known()).back() == "2 failed its proc has ended: killed by SIGKILL");
}

TEST_CASE(
    "actor_controller: of a proc that ended and was never asked nothing is said when no other has "
    "such an actor, or only some have") {
  ActorMeshController none(kTally);
  none.procs_told({proc(0), proc(1), proc(2, wire::ProcState::killed), proc(3)}, t0);
  for (const std::uint64_t rank : {0U, 1U, 3U}) CHECK(answer(none, rank, {}).events.empty());
  CHECK(none.overall() == Status::Kind::unknown);
  CHECK(none.statuses().find(0)->kind() == Status::Kind::not_exist);
  CHECK(none.statuses().find(2)->kind() == Status::Kind::unknown);
  CHECK(none.is_monitored());
  // Actors that were made in a slice have other numbers than their procs.
  ActorMeshController slice(kTally);
  slice.procs_told({proc(0), proc(1, wire::ProcState::killed), proc(2), proc(3)}, t0);
  CHECK(answer(slice, 2, {actor(0)}).events.size() == 1);
  CHECK(slice.failed() == 0);
  // One that had none ends without a word.
  CHECK(answer(slice, 0, {}).events.empty());
  CHECK(slice.procs_told({proc(0, wire::ProcState::killed)}, t0).events.empty());
}

TEST_CASE(
    "actor_controller: spec 8.4: monitoring ends when all have ended and were told, and goes on "
    "with a new life") {
  auto actors = running();
  for (std::uint64_t rank = 0; rank < 3; ++rank)
    push(actors, rank, {actor(rank, wire::StatusKind::stopped, 3)});
  CHECK(actors.is_monitored());
  const auto last = actors.procs_told({proc(3, wire::ProcState::stopped)}, t0);
  REQUIRE(last.events.size() == 2);
  CHECK(last.events[1].kind == WatchEvent::Kind::ended);
  CHECK(last.events[1].overall == Status::Kind::stopped);
  CHECK_FALSE(actors.is_monitored());
  CHECK(actors.known().back().kind == WatchEvent::Kind::ended);
  CHECK(actors.poll(t0 + 10s).orders.empty());
  const auto again = actors.procs_told({proc(3, wire::ProcState::ready, 2)}, t0 + 11s);
  CHECK(again.orders.size() == 1);
  CHECK(actors.is_monitored());
  // A new life has actors of its own, which are numbered anew.
  CHECK(answer(actors, 3, {actor(3, wire::StatusKind::failed, 9)}).events.empty());
  CHECK(reasons(actors
                    .answered({Order::Kind::stream, 3, kB, 2},
                              ActorUpdate{{actor(3, wire::StatusKind::running, 1)}}, t0)
                    .events)
            .size() == 1);
}

TEST_CASE("actor_controller: a mesh that some procs have no actor of is waited for, for a while") {
  ActorMeshController actors(kTally);
  actors.procs_told({proc(0), proc(1), proc(2), proc(3)}, t0);
  answer(actors, 0, {actor(0, wire::StatusKind::stopped, 3)});
  for (const std::uint64_t rank : {1U, 2U, 3U}) answer(actors, rank, {});
  CHECK(actors.is_monitored());
  REQUIRE(actors.next_due() == t0 + MeshController::kAbsenceLimit);
  const auto over = actors.turn(t0 + MeshController::kAbsenceLimit);
  REQUIRE(over.events.size() == 1);
  CHECK(over.events[0].kind == WatchEvent::Kind::ended);
  // It comes after all.
  CHECK(push(actors, 1, {actor(1)}).events.size() == 1);
  CHECK(actors.is_monitored());
  // The end of the procs is the end in any case.
  ActorMeshController none(kTally);
  const auto events = std::vector<WatchEvent>{proc(0, wire::ProcState::stopped),
                                              about_host(WatchEvent::Kind::ended, kA)};
  const auto ended = none.procs_told(events, t0);
  REQUIRE(ended.events.size() == 1);
  CHECK(ended.events[0].kind == WatchEvent::Kind::ended);
}

TEST_CASE("actor_controller: spec 8.7: a silent host makes its actors unknown, and is no end") {
  auto actors = running();
  const auto silent = actors.procs_told({about_host(WatchEvent::Kind::host_unreachable, kB)}, t0);
  REQUIRE(silent.events.size() == 1);
  CHECK(silent.events[0].kind == WatchEvent::Kind::host_unreachable);
  CHECK(silent.events[0].mesh == kTally.to_string());
  CHECK(actors.statuses().find(2)->kind() == Status::Kind::unknown);
  CHECK(actors.statuses().find(1)->kind() == Status::Kind::running);
  CHECK(actors.overall() == Status::Kind::running);
  CHECK(actors.poll(t0 + 10s).orders.size() == 2);
  CHECK(actors.known().back().kind == WatchEvent::Kind::host_unreachable);
  const auto back = actors.procs_told({about_host(WatchEvent::Kind::host_back, kB)}, t0 + 11s);
  CHECK(back.events.size() == 1);
  CHECK(back.orders.size() == 2);
}

TEST_CASE(
    "actor_controller: spec 8.4: a stop is passed on to every actor until it has ended, also to "
    "those that turn up later") {
  auto actors = running();
  push(actors, 0, {actor(0, wire::StatusKind::failed, 3)});
  wire::StopProcsT order;
  order.mesh = kTally.to_string();
  order.ranks = {wire::RankInterval(0, 3)};
  const auto stops = actors.stop(order, t0);
  REQUIRE(stops.orders.size() == 2);
  CHECK(stops.orders[0].kind == Order::Kind::stop);
  CHECK(stops.orders[0].rank == 1);
  CHECK(reasons(answer(actors, 1, {actor(1, wire::StatusKind::stopped, 3)}, Order::Kind::stop)
                    .events) == Texts{"1 stopped seen enough"});
  // Not answered: again, until it is.
  CHECK(actors.answered({Order::Kind::stop, 2, kB, 1}, fail(ErrorCode::timeout, "no answer"), t0)
            .orders.empty());
  const auto again = actors.turn(t0 + MeshController::kAskAgain);
  REQUIRE(again.orders.size() == 1);
  CHECK(again.orders[0].kind == Order::Kind::stop);
  // A second order begins anew.
  answer(actors, 2, {actor(2, wire::StatusKind::stopped, 3)}, Order::Kind::stop);
  order.ranks.clear();
  CHECK(actors.stop(order, t0).orders.size() == 1);
  ActorMeshController later(kTally);
  later.procs_told({proc(0)}, t0);
  CHECK(later.stop(order, t0).orders.empty());
  const auto late = answer(later, 0, {actor(0)});
  REQUIRE(late.orders.size() == 1);
  CHECK(late.orders[0].kind == Order::Kind::stop);
}

TEST_CASE("actor_controller: so many procs are asked at a time, and no more") {
  ActorMeshController actors(kTally);
  std::vector<WatchEvent> procs;
  for (std::uint64_t rank = 0; rank < 1000; ++rank) procs.push_back(proc(rank));
  auto open = actors.procs_told(procs, t0).orders;
  CHECK(open.size() == ActorMeshController::kMostAsked);
  std::size_t asked = open.size();
  while (!open.empty()) {
    const auto one = open.back();
    open.pop_back();
    for (const auto& more : actors.answered(one, ActorUpdate{{actor(one.rank)}}, t0).orders) {
      open.push_back(more);
      ++asked;
    }
  }
  CHECK(asked == 1000);
  CHECK(actors.live() == 1000);
}

TEST_CASE("subscriptions: actors are heard of by who names them") {
  Subscriptions subscriptions;
  const auto all = *ProcId::parse("unix:/a,client-11111111111b");
  const auto one = *ProcId::parse("unix:/a,client-11111111111c");
  subscriptions.add(all, "");
  subscriptions.add(one, kTally.to_string(), {{1, 2}});
  auto actors = running();
  const auto events =
      actors.procs_told({proc(1, wire::ProcState::killed), proc(2, wire::ProcState::killed)}, t0)
          .events;
  CHECK(subscriptions.for_subscriber(all, events).empty());
  CHECK(subscriptions.for_subscriber(one, events).size() == 1);
  CHECK(subscriptions.count(kTally.to_string()) == 1);
  CHECK(subscriptions.count(kMesh.to_string()) == 1);
}

TEST_CASE("watch_feed: what becomes of actors is told once, whatever comes twice") {
  auto actors = running();
  WatchFeed feed;
  const auto failed = push(actors, 1, {actor(1, wire::StatusKind::failed, 3)}).events;
  std::size_t heard = 0;
  for (const auto& message : to_messages(failed, 1, false))
    heard += feed.on_event(message, t0).size();
  CHECK(heard == 1);
  for (const auto& message : to_messages(actors.known(), 1, true))
    heard += feed.on_event(message, t0).size();
  CHECK(heard == 4);
}

TEST_CASE("event_json: of actors with their causes") {
  auto actors = running();
  const auto now = std::chrono::system_clock::time_point(1'500ms);
  const auto failed = push(actors, 1, {actor(1, wire::StatusKind::failed, 3)});
  REQUIRE(failed.events.size() == 1);
  CHECK(to_json_line(failed.events[0], now) ==
        "{\"time\":\"1970-01-01T00:00:01.500Z\",\"event\":\"state\",\"mesh\":\"m-111111111112\","
        "\"actor\":\"tally\",\"host\":\"unix:/a\","
        "\"rank\":1,\"point\":\"host=0/2,gpu=1/"
        "2\",\"state\":\"failed\",\"pid\":42,\"proc_ended\":false,\"message\":\"add\","
        "\"causes\":[\"cannot write\",\"disk "
        "full\"],\"exit_code\":null,\"signal\":null,\"reason\":\"no "
        "checkpoint\",\"stderr_tail\":[]}");
  const auto killed = actors.procs_told({proc(2, wire::ProcState::killed)}, t0);
  REQUIRE(killed.events.size() == 1);
  CHECK(
      to_json_line(killed.events[0], now)
          .find(
              "\"proc_ended\":true,\"message\":null,\"causes\":[],\"exit_code\":null,\"signal\":9,"
              "\"reason\":\"its proc has ended: killed by SIGKILL\"") != std::string::npos);
}

}  // namespace meshbus::test::actors_controlled

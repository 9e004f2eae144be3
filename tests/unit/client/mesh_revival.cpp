#include "client/controller/mesh_revival.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "client/controller/mesh_controller.h"
#include "tests/unit/client/controlled_mesh.h"
#include "wire/supervision_generated.h"

namespace meshbus::test::controlled {

/// Two ranks on one host.
inline MeshUpdate news_of_one_host() {
  auto news = news_of({rank_of(0), rank_of(1)});
  news.region = Region(*Extent::parse("host=1,gpu=2"));
  news.hosts = {kA};
  return news;
}

TEST_CASE(
    "mesh_controller: between two lives of all its ranks a mesh has not ended, as long as somebody "
    "is there to begin them") {
  auto mesh = make({kA});
  auto news = news_of_one_host();
  news.ranks_update.owner =
      OwnerUpdate{.owner = "unix:/a,client-11111111111b", .may_restart = true};
  mesh.listed(kA, news, t0);
  mesh.answered({Order::stream, kA}, news, t0);
  const auto end = [&](std::uint64_t generation, std::uint64_t incarnation,
                       MeshController::Time now) {
    return mesh.pushed(kA,
                       {{rank_of(0, wire::ProcState::killed, generation, incarnation),
                         rank_of(1, wire::ProcState::killed, generation, incarnation)},
                        {exit_report_of(0), exit_report_of(1)}},
                       now);
  };
  CHECK(end(2, 1, t0 + 1s).events.size() == 2);
  CHECK(mesh.is_monitored());
  CHECK(mesh.turn(t0 + 60s).events.empty());
  mesh.pushed(
      kA,
      {{rank_of(0, wire::ProcState::ready, 3, 2), rank_of(1, wire::ProcState::ready, 3, 2)}, {}},
      t0 + 61s);
  CHECK(end(4, 2, t0 + 62s).events.size() == 2);
  RankUpdate gone;
  gone.owner = OwnerUpdate{.owner = "unix:/a,client-11111111111b", .is_gone = true};
  const auto over = mesh.pushed(kA, gone, t0 + 63s);
  REQUIRE(over.events.size() == 1);
  CHECK(over.events[0].kind == WatchEvent::Kind::ended);
  CHECK(mesh.turn(t0 + 64s).events.empty());
}

TEST_CASE(
    "mesh_controller: ranks of its own mesh are restarted by the policy that the owner before has "
    "left, and the mesh ends when nothing can follow") {
  auto mesh = make({kA});
  auto news = news_of_one_host();
  RestartPlan plan{.policy = {.on = RestartPolicy::On::failure, .budget = 1, .jitter = 0}};
  news.ranks_update.owner =
      OwnerUpdate{.owner = "unix:/a,controller", .may_restart = true, .restarts = plan};
  mesh.listed(kA, news, t0);
  mesh.answered({Order::stream, kA}, news, t0);
  const auto end = [&](wire::RankState state, MeshController::Time now) {
    return mesh.pushed(kA, {{state}, {exit_report_of(state.rank())}}, now);
  };
  const auto live = [](std::uint64_t generation, std::uint64_t incarnation,
                       std::uint32_t restarts) {
    auto state = rank_of(0, wire::ProcState::ready, generation, incarnation);
    state.mutate_restarts(restarts);
    return state;
  };
  CHECK(mesh.own(true, t0).events.empty());
  const auto first = end(rank_of(0, wire::ProcState::killed, 2), t0);
  REQUIRE(first.events.size() == 2);
  CHECK(first.events[1].kind == WatchEvent::Kind::restarting);
  CHECK(first.events[1].ranks == RankSet{{0, 1}});
  CHECK(first.events[0].overall == Status::Kind::running);
  CHECK(first.orders.empty());
  CHECK(mesh.next_due() == t0 + 1s);
  auto order = mesh.turn(t0 + 1s).orders;
  REQUIRE(order.size() == 1);
  CHECK(order[0].kind == Order::restart);
  CHECK(order[0].restart->restarts == 1);
  CHECK(order[0].restart->ranks.size() == 1);
  REQUIRE(mesh.restart_plan(kA, t0 + 1s).used.size() == 1);
  CHECK(mesh.restart_plan(kA, t0 + 1s).used[0].all == 1);
  CHECK(mesh.answered(order[0], fail(ErrorCode::would_block, "not over"), t0 + 1s).orders.empty());
  order = mesh.turn(t0 + 1020ms).orders;
  REQUIRE(order.size() == 1);
  CHECK(mesh.answered(order[0], std::monostate(), t0 + 1030ms).orders.empty());
  mesh.pushed(kA, {{live(3, 2, 1)}, {}}, t0 + 2s);
  CHECK(mesh.turn(t0 + 9s).orders.empty());

  auto last = live(4, 2, 1);
  last.mutate_state(wire::ProcState::killed);
  last.mutate_signal(9);
  last.mutate_ended_ns(7);
  const auto over = end(last, t0 + 10s);
  REQUIRE(over.events.size() == 2);
  CHECK(over.events[1].kind == WatchEvent::Kind::given_up);
  CHECK(over.events[1].overall == Status::Kind::failed);
  CHECK(mesh.turn(t0 + 100s).events.empty());
  CHECK(mesh.known().size() == 3);  // two ranks, and that one of them was given up

  const auto done = end(rank_of(1, wire::ProcState::stopped, 2), t0 + 101s);
  CHECK(done.events.size() == 1);
  REQUIRE(done.orders.size() == 1);
  CHECK(done.orders[0].restart->ranks.empty());
  CHECK(mesh.restart_plan(kA, t0 + 101s).is_over);
  RankUpdate told;
  plan.is_over = true;
  told.owner = OwnerUpdate{.owner = "unix:/a,controller", .restarts = plan};
  const auto ended = mesh.pushed(kA, told, t0 + 102s);
  REQUIRE(ended.events.size() == 1);
  CHECK(ended.events[0].kind == WatchEvent::Kind::ended);
  CHECK(mesh.turn(t0 + 200s).orders.empty());
}

TEST_CASE(
    "mesh_controller: the answer to what was ordered when the mesh was its own before says nothing "
    "of what is ordered now") {
  auto mesh = make({kA});
  auto news = news_of_one_host();
  const RestartPlan plan{.policy = {.on = RestartPolicy::On::failure, .jitter = 0}};
  news.ranks_update.owner =
      OwnerUpdate{.owner = "unix:/a,controller", .may_restart = true, .restarts = plan};
  mesh.listed(kA, news, t0);
  mesh.answered({Order::stream, kA}, news, t0);
  mesh.own(true, t0);
  mesh.pushed(kA, {{rank_of(0, wire::ProcState::killed, 2)}, {exit_report_of(0)}}, t0);
  const auto before = mesh.turn(t0 + 1s).orders;
  REQUIRE(before.size() == 1);
  mesh.own(false, t0 + 1100ms);
  mesh.own(true, t0 + 1200ms);
  const auto now = mesh.turn(t0 + 3s).orders;
  REQUIRE(now.size() == 1);
  CHECK(now[0].kind == Order::restart);
  const auto late = mesh.answered(before[0], fail(ErrorCode::refused, "term 1 is over"), t0 + 4s);
  CHECK(late.events.empty());
  CHECK(mesh.is_restarting());
  mesh.answered(now[0], fail(ErrorCode::would_block, "not over"), t0 + 5s);
  CHECK(mesh.turn(t0 + 6s).orders.size() == 1);
}

TEST_CASE(
    "mesh_controller: a host that was started again while nobody answered for the mesh has lost "
    "its "
    "ranks, and a gang does not wait for them") {
  auto mesh = make();
  RestartPlan plan{.policy = {.on = RestartPolicy::On::failure, .gang = Gang::all, .jitter = 0}};
  auto news = news_of({rank_of(0), rank_of(1)});
  news.ranks_update.owner =
      OwnerUpdate{.owner = "unix:/a,controller", .may_restart = true, .restarts = plan};
  mesh.listed(kA, news, t0);
  mesh.answered({Order::stream, kA}, news, t0);
  mesh.absent(kB, t0);
  // The list of that host may be older than the mesh: it is asked once more.
  auto asked = mesh.own(true, t0);
  REQUIRE(asked.orders.size() == 1);
  CHECK(asked.orders[0].kind == Order::state);
  CHECK(asked.orders[0].host == kB);
  const auto lost = mesh.answered(asked.orders[0], fail(ErrorCode::not_exist, ""), t0 + 1s);
  const auto count = [](const MeshController::Actions& actions, WatchEvent::Kind kind) {
    return std::count_if(actions.events.begin(), actions.events.end(),
                         [kind](const auto& event) { return event.kind == kind; });
  };
  CHECK(count(lost, WatchEvent::Kind::state) == 2);
  for (const auto& event : lost.events) {
    if (event.kind == WatchEvent::Kind::state)
      CHECK(event.exit_report->cause == wire::Cause::host_lost);
  }
  CHECK(count(lost, WatchEvent::Kind::given_up) == 1);
  // The others cannot go on without them.
  const auto stop = std::find_if(lost.orders.begin(), lost.orders.end(),
                                 [](const auto& order) { return order.kind == Order::stop_gang; });
  REQUIRE(stop != lost.orders.end());
  CHECK(stop->host == kA);
  const auto over = mesh.pushed(
      kA,
      {{rank_of(0, wire::ProcState::stopped, 2), rank_of(1, wire::ProcState::stopped, 2)},
       {exit_report_of(0), exit_report_of(1)}},
      t0 + 2s);
  CHECK(count(over, WatchEvent::Kind::given_up) == 0);
  CHECK_FALSE(mesh.is_restarting());
}

TEST_CASE(
    "mesh_controller: a host that does not answer, and of which nothing was heard, keeps no rank "
    "of "
    "the others from being restarted; a gang waits for it") {
  const auto owner_with = [](Gang gang) {
    return OwnerUpdate{
        .owner = "unix:/a,controller",
        .may_restart = true,
        .restarts =
            RestartPlan{.policy = {.on = RestartPolicy::On::failure, .gang = gang, .jitter = 0}}};
  };
  const auto begin = [&](Gang gang) {
    auto mesh = make();
    auto news = news_of({rank_of(0), rank_of(1)});
    news.ranks_update.owner = owner_with(gang);
    mesh.listed(kA, news, t0);
    mesh.answered({Order::stream, kA}, news, t0);
    mesh.host_changed(kB, true, "no answer", t0);
    mesh.own(true, t0);
    return mesh;
  };
  const auto kill = [](MeshController& mesh, std::uint64_t rank) {
    return mesh.pushed(kA, {{rank_of(rank, wire::ProcState::killed, 2)}, {exit_report_of(rank)}},
                       t0 + 1s);
  };
  const auto count = [](const MeshController::Actions& actions, WatchEvent::Kind kind) {
    return std::count_if(actions.events.begin(), actions.events.end(),
                         [kind](const auto& event) { return event.kind == kind; });
  };
  auto gang = begin(Gang::all);
  CHECK(count(kill(gang, 0), WatchEvent::Kind::restarting) == 0);

  auto mesh = begin(Gang::one);
  CHECK(count(kill(mesh, 0), WatchEvent::Kind::restarting) == 1);
  const auto started = mesh.turn(t0 + 2s).orders;
  REQUIRE(started.size() == 1);
  CHECK(started[0].kind == Order::restart);
  CHECK(started[0].host == kA);
  SUBCASE("it is back, and one of its ranks has ended meanwhile") {
    mesh.host_changed(kB, false, "", t0 + 3s);
    auto news = news_of({rank_of(2), rank_of(3, wire::ProcState::killed, 2)}, {exit_report_of(3)});
    news.ranks_update.owner = owner_with(Gang::one);
    const auto heard = mesh.listed(kB, news, t0 + 3s);
    CHECK(count(heard, WatchEvent::Kind::given_up) == 0);
    const auto told = mesh.answered({Order::stream, kB}, news, t0 + 3s);
    CHECK(count(heard, WatchEvent::Kind::restarting) + count(told, WatchEvent::Kind::restarting) ==
          1);
    const auto orders = mesh.turn(t0 + 5s).orders;
    CHECK(std::ranges::any_of(orders, [](const auto& order) {
      return order.kind == Order::restart && order.host == kB;
    }));
  }
  SUBCASE("it is back, was started again meanwhile, and has lost its ranks") {
    mesh.host_changed(kB, false, "", t0 + 3s);
    const auto asked = mesh.absent(kB, t0 + 3s);
    REQUIRE(asked.orders.size() == 1);
    CHECK(asked.orders[0].kind == Order::state);
    CHECK(asked.orders[0].host == kB);
    const auto lost = mesh.answered(asked.orders[0], fail(ErrorCode::not_exist, ""), t0 + 4s);
    CHECK(count(lost, WatchEvent::Kind::state) == 2);
    CHECK(count(lost, WatchEvent::Kind::given_up) == 2);
    CHECK(mesh.turn(t0 + 60s).events.empty());
  }
}

TEST_CASE(
    "mesh_controller: a rank that waits and is stopped at its host is told once, and not "
    "restarted") {
  auto mesh = make({kA});
  auto news = news_of_one_host();
  RestartPlan plan{.policy = {.on = RestartPolicy::On::failure, .jitter = 0}};
  OwnerUpdate owner{.owner = "unix:/a,controller", .may_restart = true, .restarts = plan};
  news.ranks_update.owner = owner;
  mesh.listed(kA, news, t0);
  mesh.answered({Order::stream, kA}, news, t0);
  mesh.own(true, t0);
  const auto ended =
      mesh.pushed(kA, {{rank_of(0, wire::ProcState::killed, 2)}, {exit_report_of(0)}}, t0 + 1s);
  REQUIRE(ended.events.size() == 2);
  CHECK(ended.events[1].kind == WatchEvent::Kind::restarting);
  RankUpdate stopped;
  owner.stopped = {{0, 1}};
  stopped.owner = owner;
  const auto told = mesh.pushed(kA, stopped, t0 + 2s);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].kind == WatchEvent::Kind::given_up);
  CHECK(told.events[0].problem == "rank 0 is not restarted: somebody has stopped it");
  CHECK(told.events[0].overall == Status::Kind::failed);
  CHECK(mesh.pushed(kA, stopped, t0 + 3s).events.empty());
  CHECK(mesh.turn(t0 + 60s).orders.empty());
}

}  // namespace meshbus::test::controlled

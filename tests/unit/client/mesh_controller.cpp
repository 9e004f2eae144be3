#include "client/controller/mesh_controller.h"

#include <doctest/doctest.h>

#include "tests/unit/client/controlled_mesh.h"
#include "wire/supervision_generated.h"

namespace meshbus::test::controlled {

TEST_CASE("mesh_controller: what is listed is told once, and its changes are asked for") {
  auto mesh = make();
  const auto first = mesh.listed(kA, news_of({rank_of(0), rank_of(1)}), t0);
  CHECK(first.events.size() == 2);
  REQUIRE(first.orders.size() == 1);
  CHECK(first.orders[0].kind == Order::stream);
  CHECK(first.events[0].point() == "host=0/2,gpu=0/2");
  const auto again = mesh.listed(kA, news_of({rank_of(0), rank_of(1)}), t0 + 1s);
  CHECK(again.events.empty());
  CHECK(again.orders.empty());
}

TEST_CASE(
    "mesh_controller: an end that is pushed is told once, with its exit report, however often it "
    "is polled") {
  auto mesh = running();
  const auto ended = rank_of(1, wire::ProcState::killed, 2);
  CHECK(mesh.pushed(kA, {{ended}, {}}, t0).events.empty());
  const auto told = mesh.pushed(kA, {{}, {exit_report_of(1)}}, t0 + 50ms);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].rank.signal() == 9);
  REQUIRE(told.events[0].exit_report != nullptr);
  CHECK(told.events[0].overall == Status::Kind::failed);
  CHECK(mesh.listed(kA, news_of({rank_of(0), ended}), t0 + 1s).events.empty());
  CHECK(
      mesh.answered({Order::state, kA}, news_of({rank_of(0), ended}, {exit_report_of(1)}), t0 + 1s)
          .events.empty());
}

TEST_CASE("mesh_controller: a host that tells of ranks or sizes that cannot be is not believed") {
  auto mesh = make();
  const auto told = mesh.listed(kA, news_of({rank_of(0), rank_of(4), rank_of(1ULL << 40)}), t0);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].rank.rank() == 0);
  CHECK(mesh.pushed(kA, {{rank_of(4, wire::ProcState::killed)}, {exit_report_of(4)}}, t0)
            .events.empty());
  CHECK(mesh.live() == 1);

  auto vast = make();
  auto update = news_of({rank_of(0)});
  update.region = Region(*Extent::parse("host=2,gpu=1000000000000"));
  CHECK(vast.listed(kA, update, t0).events.size() == 1);
  CHECK(vast.region() == nullptr);
  CHECK(vast.size() == 1);
  CHECK(RankLayout::can_be(2 * RankLayout::kMostPerHost, 2));
  CHECK_FALSE(RankLayout::can_be(2 * RankLayout::kMostPerHost + 1, 2));
}

TEST_CASE("mesh_controller: all ends of one turn are told together, the earlier first") {
  auto mesh = running();
  auto late = rank_of(0, wire::ProcState::killed, 2);
  late.mutate_ended_ns(9);
  const auto told = mesh.pushed(
      kA, {{late, rank_of(1, wire::ProcState::killed, 2)}, {exit_report_of(0), exit_report_of(1)}},
      t0);
  REQUIRE(told.events.size() == 2);
  CHECK(told.events[0].rank.rank() == 1);
}

TEST_CASE(
    "mesh_controller: each change of a rank in one message is told once, in order, with its own "
    "report") {
  using wire::ProcState;
  auto mesh = make();
  mesh.listed(kA, news_of({rank_of(0), rank_of(1, ProcState::starting)}), t0);
  const auto second = std::make_shared<wire::ExitReportT>(*exit_report_of(1));
  std::const_pointer_cast<wire::ExitReportT>(second)->reason = "killed again";
  const auto told =
      mesh.pushed(kA,
                  {{rank_of(1, ProcState::running, 2), rank_of(1, ProcState::ready, 3),
                    rank_of(1, ProcState::killed, 4), rank_of(1, ProcState::starting, 1, 2),
                    rank_of(1, ProcState::killed, 2, 2)},
                   {exit_report_of(1), second}},
                  t0);
  REQUIRE(told.events.size() == 5);
  const std::vector expected{ProcState::running, ProcState::ready, ProcState::killed,
                             ProcState::starting, ProcState::killed};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(told.events[i].rank.state() == expected[i]);
    CHECK((told.events[i].exit_report != nullptr) == is_terminal(expected[i]));
  }
  CHECK(told.events[2].exit_report->reason == "killed by SIGKILL");
  CHECK(told.events[4].exit_report->reason == "killed again");
}

TEST_CASE(
    "mesh_controller: an exit report that does not come is asked for, and at last done without") {
  auto mesh = running();
  mesh.pushed(kA, {{rank_of(1, wire::ProcState::killed, 2)}, {}}, t0);
  REQUIRE(mesh.next_due() == t0 + MeshController::kExitReportAsk);
  const auto asked = mesh.turn(t0 + MeshController::kExitReportAsk);
  CHECK(asked.events.empty());
  REQUIRE(asked.orders.size() == 1);
  CHECK(asked.orders[0].kind == Order::state);
  const auto told = mesh.turn(t0 + MeshController::kExitReportLimit);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].exit_report == nullptr);
  CHECK(mesh.pushed(kA, {{}, {exit_report_of(1)}}, t0 + 4s).events.empty());
}

TEST_CASE(
    "mesh_controller: what a poll finds before a push, the push has missed: it is asked for anew") {
  auto mesh = running();
  const auto found =
      mesh.listed(kA, news_of({rank_of(0), rank_of(1, wire::ProcState::stopping, 2)}), t0 + 10s);
  CHECK(found.events.size() == 1);
  REQUIRE(found.orders.size() == 1);
  CHECK(found.orders[0].kind == Order::stream);
}

TEST_CASE("mesh_controller: what comes late does not turn time back, and nothing leaves its end") {
  auto mesh = running();
  mesh.pushed(kA, {{rank_of(1, wire::ProcState::stopping, 3)}, {}}, t0);
  CHECK(mesh.pushed(kA, {{rank_of(1, wire::ProcState::ready, 2)}, {}}, t0).events.empty());
  mesh.pushed(kA, {{rank_of(1, wire::ProcState::killed, 4)}, {exit_report_of(1)}}, t0);
  CHECK(mesh.pushed(kA, {{rank_of(1, wire::ProcState::ready, 5)}, {}}, t0).events.empty());
  // Another incarnation is reported; a report of the incarnation before comes too late.
  CHECK(mesh.pushed(kA, {{rank_of(1, wire::ProcState::ready, 1, 2)}, {}}, t0).events.size() == 1);
  CHECK(mesh.pushed(kA, {{rank_of(1, wire::ProcState::failed, 9, 1)}, {}}, t0).events.empty());
  // A host without that rank cannot report its state.
  CHECK(mesh.pushed(kB, {{rank_of(1, wire::ProcState::killed, 9, 2)}, {exit_report_of(1)}}, t0)
            .events.empty());
}

TEST_CASE("mesh_controller: silence is no end, and unknown is never stopped") {
  auto mesh = running();
  CHECK(mesh.unheard() == 0);
  const auto silent = mesh.host_changed(kB, true, "nothing was heard of it", t0);
  CHECK(mesh.live() == 4);
  CHECK(mesh.unheard() == 2);
  REQUIRE(silent.events.size() == 1);
  CHECK(silent.events[0].kind == WatchEvent::Kind::host_unreachable);
  CHECK(mesh.host_changed(kB, true, "again", t0).events.empty());
  CHECK(mesh.statuses().find(2)->kind() == Status::Kind::unknown);
  CHECK(mesh.overall() == Status::Kind::running);
  auto ended =
      std::vector{rank_of(0, wire::ProcState::stopped, 2), rank_of(1, wire::ProcState::stopped, 2)};
  mesh.pushed(kA, {ended, {exit_report_of(0), exit_report_of(1)}}, t0);
  CHECK(mesh.overall() == Status::Kind::unknown);
  CHECK(mesh.is_monitored());
  CHECK(mesh.live() == 2);
  CHECK(mesh.unheard() == 2);
  const auto back = mesh.host_changed(kB, false, {}, t0 + 1s);
  CHECK(mesh.unheard() == 0);
  REQUIRE(back.orders.size() == 1);
  CHECK(back.orders[0].kind == Order::stream);
  CHECK(mesh.overall() == Status::Kind::running);
}

TEST_CASE("mesh_controller: monitoring ends when every rank has ended and was told") {
  auto mesh = running();
  mesh.pushed(kA,
              {{rank_of(0, wire::ProcState::stopped, 2), rank_of(1, wire::ProcState::stopped, 2)},
               {exit_report_of(0), exit_report_of(1)}},
              t0);
  CHECK(mesh.is_monitored());
  const auto last = mesh.pushed(
      kB,
      {{rank_of(2, wire::ProcState::stopped, 2), rank_of(3, wire::ProcState::stopped, 2)},
       {exit_report_of(2), exit_report_of(3)}},
      t0);
  REQUIRE(last.events.size() == 3);
  CHECK(last.events[2].kind == WatchEvent::Kind::ended);
  CHECK_FALSE(mesh.is_monitored());
  CHECK(mesh.overall() == Status::Kind::stopped);
  CHECK(mesh.known().size() == 5);
  CHECK(mesh.known({{1, 2}}).size() == 2);
}

TEST_CASE(
    "mesh_controller: a host that knows its live ranks no more was started anew: they are lost, "
    "each once") {
  auto mesh = running();
  const auto absent = mesh.absent(kA, t0 + 10s);
  CHECK(absent.events.empty());
  REQUIRE(absent.orders.size() == 1);
  const auto lost =
      mesh.answered(absent.orders[0], fail(ErrorCode::not_exist, "no such mesh"), t0 + 10s);
  REQUIRE(lost.events.size() == 2);
  CHECK(lost.events[0].exit_report->cause == wire::Cause::host_lost);
  CHECK(mesh.overall() == Status::Kind::failed);
  CHECK(mesh.absent(kA, t0 + 20s).events.empty());
}

TEST_CASE("mesh_controller: a query that fails is told once, and says nothing about ranks") {
  auto mesh = make();
  mesh.listed(kA, news_of({rank_of(0), rank_of(1)}), t0);
  const auto failed =
      mesh.answered({Order::stream, kA}, fail(ErrorCode::queue_full, "1000 subscribers"), t0);
  REQUIRE(failed.events.size() == 1);
  CHECK(failed.events[0].kind == WatchEvent::Kind::query_failed);
  CHECK(failed.orders.empty());
  REQUIRE(mesh.next_due().has_value());
  const auto again = mesh.turn(*mesh.next_due());
  REQUIRE(again.orders.size() == 1);
  CHECK(mesh.answered(again.orders[0], fail(ErrorCode::queue_full, "1000 subscribers"), t0 + 2s)
            .events.empty());
  CHECK(mesh.statuses().find(0)->kind() == Status::Kind::running);
}

TEST_CASE(
    "mesh_controller: a stop goes to every host until each has taken it, also to ranks that turn "
    "up later") {
  auto mesh = make();
  mesh.listed(kA, news_of({rank_of(0), rank_of(1)}), t0);
  wire::StopProcsT order;
  order.mesh = kControlled;
  auto stopping = mesh.stop(order, t0);
  REQUIRE(stopping.orders.size() == 1);
  CHECK(stopping.orders[0].kind == Order::stop);
  CHECK(
      mesh.answered(stopping.orders[0], fail(ErrorCode::timeout, "no answer"), t0).orders.empty());
  CHECK(mesh.turn(t0 + 2s).orders.size() == 1);
  mesh.answered(stopping.orders[0], std::monostate(), t0 + 2s);
  CHECK(mesh.turn(t0 + 5s).orders.empty());
  const auto later = mesh.listed(kB, news_of({rank_of(2)}), t0 + 6s);
  REQUIRE(later.orders.size() == 2);
  CHECK(later.orders[0].kind == Order::stop);
}

TEST_CASE(
    "mesh_controller: hosts that are not watched are left alone, and what is there stays unknown") {
  auto mesh = make({kA});
  mesh.listed(
      kA,
      news_of({rank_of(0, wire::ProcState::stopped, 2), rank_of(1, wire::ProcState::stopped, 2)}),
      t0);
  CHECK(mesh.answered({Order::state, kB}, std::monostate(), t0).events.empty());
  CHECK(mesh.overall() == Status::Kind::unknown);
}

TEST_CASE("mesh_controller: who is frozen or slow is told once, with its end, and is no failure") {
  using wire::Trouble;
  auto mesh = running();
  const auto frozen = mesh.pushed(kA, troubles({trouble_of(1, Trouble::frozen)}), t0);
  REQUIRE(frozen.events.size() == 1);
  CHECK(frozen.events[0].kind == WatchEvent::Kind::trouble);
  CHECK(frozen.events[0].trouble.trouble() == Trouble::frozen);
  CHECK(frozen.events[0].point() == "host=0/2,gpu=1/2");
  CHECK(mesh.overall() == Status::Kind::running);
  CHECK(mesh.failed() == 0);
  CHECK(mesh.pushed(kA, troubles({trouble_of(1, Trouble::frozen)}), t0).events.empty());
  // Trouble of another incarnation, on another host, of no rank, and of a kind that this release
  // does not know.
  CHECK(mesh.pushed(kA, troubles({trouble_of(0, Trouble::frozen, 2)}), t0).events.empty());
  CHECK(mesh.pushed(kB, troubles({trouble_of(0, Trouble::frozen)}), t0).events.empty());
  CHECK(mesh.pushed(kA, troubles({trouble_of(9, Trouble::frozen)}), t0).events.empty());
  CHECK(mesh.pushed(kA, troubles({trouble_of(0, static_cast<Trouble>(77))}), t0).events.empty());
  // A late subscriber hears of it, behind the state.
  const auto known = mesh.known({{1, 2}});
  REQUIRE(known.size() == 2);
  CHECK(known[1].kind == WatchEvent::Kind::trouble);
  const auto slow = mesh.pushed(kA, troubles({trouble_of(1, Trouble::slow)}), t0);
  REQUIRE(slow.events.size() == 1);
  CHECK(slow.events[0].trouble.trouble() == Trouble::slow);
  // The report that it is well again was lost: the next list, without trouble, repairs that.
  const auto well = mesh.listed(kA, news_of({rank_of(0), rank_of(1)}), t0 + 1s);
  REQUIRE(well.events.size() == 1);
  CHECK(well.events[0].trouble.trouble() == Trouble::none);
  CHECK(mesh.listed(kA, news_of({rank_of(0), rank_of(1)}), t0 + 2s).events.empty());
  // A list may also be the first to tell.
  auto news = news_of({rank_of(0), rank_of(1)});
  news.ranks_update.troubles = {trouble_of(0, Trouble::frozen)};
  CHECK(mesh.listed(kA, news, t0 + 3s).events.size() == 1);
  // Its end is told as an end; nothing is told of a trouble that went with it.
  const auto ended =
      mesh.pushed(kA, {{rank_of(0, wire::ProcState::killed, 2)}, {exit_report_of(0)}}, t0 + 4s);
  REQUIRE(ended.events.size() == 1);
  CHECK(ended.events[0].kind == WatchEvent::Kind::state);
  CHECK(mesh.pushed(kA, troubles({trouble_of(0, Trouble::none)}), t0 + 5s).events.empty());
  CHECK(mesh.known({{0, 1}}).size() == 1);
}

}  // namespace meshbus::test::controlled

#include <algorithm>

#include <doctest/doctest.h>

#include "client/controller/event_json.h"
#include "client/controller/mesh_controller.h"
#include "client/controller/subscriptions.h"
#include "client/controller/supervision_event.h"
#include "client/controller/supervisor.h"
#include "client/controller/watch_feed.h"
#include "wire/supervision_generated.h"

/// In a namespace of their own: what others call alike is compiled with them.
namespace meshbus::test::controlled {

using namespace std::chrono_literals;

using Order = MeshController::Order::Kind;
using Question = Supervisor::Question::Kind;

inline const HostAddr kA = *HostAddr::parse("unix:/a");
inline const HostAddr kB = *HostAddr::parse("unix:/b");
inline const std::string kControlled = Name::make("m", 1)->to_string();
inline const MeshController::Time t0{1h};

inline wire::RankState rank_of(std::uint64_t rank, wire::ProcState state = wire::ProcState::ready,
                               std::uint64_t generation = 1, std::uint64_t incarnation = 1) {
  const bool is_over = is_terminal(state);
  return {rank,
          generation,
          incarnation,
          1,
          is_over ? 5 : 0,
          42,
          0,
          state,
          static_cast<std::uint8_t>(state == wire::ProcState::killed ? 9 : 0),
          false,
          wire::StopStep::none,
          0};
}

inline std::shared_ptr<const wire::ExitReportT> exit_report_of(
    std::uint64_t rank, const std::string& tail = "last \xff words\n") {
  auto exit_report = std::make_shared<wire::ExitReportT>();
  exit_report->rank = rank;
  exit_report->reason = "killed by SIGKILL";
  exit_report->cause = wire::Cause::killed_from_outside;
  exit_report->stderr_tail.assign(tail.begin(), tail.end());
  return exit_report;
}

/// Two ranks on each of two hosts.
inline MeshUpdate news_of(std::vector<wire::RankState> ranks,
                          std::vector<std::shared_ptr<const wire::ExitReportT>> exit_reports = {}) {
  return {.mesh = kControlled,
          .region = Region(*Extent::parse("host=2,gpu=2")),
          .hosts = {kA, kB},
          .ranks_update = {std::move(ranks), std::move(exit_reports)}};
}

inline MeshController make(std::set<HostAddr> watched = {kA, kB}) {
  return {kControlled, std::make_shared<const std::set<HostAddr>>(std::move(watched))};
}

/// One that knows all four ranks and hears of changes.
inline MeshController running() {
  auto mesh = make();
  for (const auto& host : {kA, kB}) {
    const std::uint64_t first = host == kA ? 0 : 2;
    mesh.listed(host, news_of({rank_of(first), rank_of(first + 1)}), t0);
    mesh.answered({Order::stream, host}, news_of({rank_of(first), rank_of(first + 1)}), t0);
  }
  return mesh;
}

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

/// What a host says of the layout of a mesh with a rank on each of these hosts.
inline RankUpdate layout_update(std::uint64_t hosts, std::uint32_t revision) {
  RankUpdate update;
  update.layout = MeshLayout{.region = Region(*Extent::make({{"host", hosts}, {"gpu", 2}})),
                             .hosts = {},
                             .revision = revision};
  for (std::uint64_t i = 0; i < hosts; ++i) update.layout->hosts.push_back(i % 2 == 0 ? kA : kB);
  return update;
}

TEST_CASE("mesh_controller: a resize is told before the ranks that came, which are asked for") {
  auto mesh = running();
  // Nothing is known of such a rank yet.
  CHECK(mesh.pushed(kA, {{rank_of(4)}, {}}, t0).events.empty());
  const auto told = mesh.pushed(kB, layout_update(3, 1), t0);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].kind == WatchEvent::Kind::resized);
  CHECK(told.events[0].ranks == RankSet{{4, 6}});
  CHECK_FALSE(told.events[0].went);
  CHECK(told.events[0].region->num_ranks() == 6);
  REQUIRE(told.orders.size() == 1);
  CHECK(told.orders[0].kind == Order::state);
  CHECK(told.orders[0].host == kA);
  // The other host says the same, and an earlier size comes late.
  CHECK(mesh.pushed(kA, layout_update(3, 1), t0).events.empty());
  CHECK(mesh.pushed(kA, layout_update(2, 0), t0).events.empty());
  CHECK(mesh.size() == 6);
  auto news = news_of({rank_of(0), rank_of(1), rank_of(4), rank_of(5)});
  const auto came = mesh.answered({Order::state, kA}, news, t0);
  REQUIRE(came.events.size() == 2);
  CHECK(came.events[0].rank.rank() == 4);
  CHECK(came.events[0].point() == "host=2/3,gpu=0/2");
}

TEST_CASE("mesh_controller: ranks that go are told with their ends first, whoever speaks first") {
  auto mesh = running();
  CHECK(mesh.pushed(kA, layout_update(1, 1), t0).events.empty());
  CHECK(mesh.size() == 4);
  CHECK(mesh.pushed(kB, {{rank_of(2, wire::ProcState::stopped, 2)}, {exit_report_of(2)}}, t0)
            .events.size() == 1);
  const auto last =
      mesh.pushed(kB, {{rank_of(3, wire::ProcState::stopped, 2)}, {exit_report_of(3)}}, t0);
  REQUIRE(last.events.size() == 2);
  CHECK(last.events[0].rank.rank() == 3);
  CHECK(last.events[1].kind == WatchEvent::Kind::resized);
  CHECK(last.events[1].went);
  CHECK(last.events[1].ranks == RankSet{{2, 4}});
  CHECK(mesh.size() == 2);
  CHECK(mesh.live() == 2);
  CHECK(mesh.known().size() == 2);
  CHECK(mesh.overall() == Status::Kind::running);
}

TEST_CASE("mesh_controller: ends of ranks that went and were missed are no lost host") {
  auto mesh = running();
  auto news = news_of({});
  news.region = Region(*Extent::parse("host=1,gpu=2"));
  news.hosts = {kA};
  news.ranks_update.layout = layout_update(1, 1).layout;
  CHECK(mesh.pushed(kB, layout_update(1, 1), t0).events.empty());
  const auto told = mesh.answered({Order::state, kB}, news, t0);
  REQUIRE(told.events.size() == 3);
  CHECK(told.events[0].rank.state() == wire::ProcState::stopped);
  CHECK(told.events[1].rank.state() == wire::ProcState::stopped);
  CHECK(told.events[2].kind == WatchEvent::Kind::resized);
  CHECK(mesh.overall() == Status::Kind::running);
  CHECK(mesh.failed() == 0);
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
  const auto silent = mesh.host_changed(kB, true, "nothing was heard of it", t0);
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
  const auto back = mesh.host_changed(kB, false, {}, t0 + 1s);
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

TEST_CASE("supervisor: a poll that comes late is counted and told, and nobody is blamed for it") {
  Supervisor supervisor({.hosts = {kA}, .mesh = {}}, t0);
  supervisor.connected(true, t0);
  supervisor.turn(t0);
  const auto late = supervisor.turn(t0 + 25s);
  REQUIRE(late.events.size() == 1);
  CHECK(late.events[0].kind == WatchEvent::Kind::late);
  CHECK(late.events[0].lateness == 15s);
  CHECK(supervisor.late_polls() == 1);
  CHECK(supervisor.unreachable().empty());
}

TEST_CASE(
    "supervisor: a host that says nothing is unreachable within 5 s, told once, and so is its "
    "return") {
  Supervisor supervisor({.hosts = {kA}, .mesh = {}}, t0);
  supervisor.connected(true, t0);
  std::vector<WatchEvent> events;
  auto now = t0;
  for (; now < t0 + 5s; now = std::max(now + 1ms, supervisor.next_due())) {
    for (auto& event : supervisor.turn(now).events) events.push_back(event);
  }
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == WatchEvent::Kind::host_unreachable);
  const auto back = supervisor.answer({Question::probe, kA, {}, {}}, HostUpdate{1, 0}, now);
  REQUIRE(back.events.size() == 1);
  CHECK(back.events[0].kind == WatchEvent::Kind::host_back);
}

TEST_CASE("supervisor: pages of a list, what they do not speak of is not taken for gone") {
  Supervisor supervisor({.hosts = {kA}, .mesh = {}}, t0);
  supervisor.connected(true, t0);
  const auto page = [&](const std::string& after, const std::vector<std::string>& names,
                        bool more) {
    ListUpdate list{.meshes = {}, .after = after, .more = more};
    for (const auto& name : names) {
      list.meshes.push_back(news_of({rank_of(0)}));
      list.meshes.back().mesh = name;
    }
    return supervisor.answer({Question::list, kA, {}, after}, list, t0);
  };
  const auto is_list = [](const Supervisor::Question& question) {
    return question.kind == Question::list;
  };
  const auto first = page("", {"a", "b"}, true);
  const auto next = std::find_if(first.questions.begin(), first.questions.end(), is_list);
  REQUIRE(next != first.questions.end());
  CHECK(next->after == "b");
  page("b", {"c"}, false);
  CHECK(supervisor.meshes().size() == 3);
  // A host that says the same page for ever is not asked for ever.
  const auto same = page("b", {"a", "b"}, true);
  CHECK(std::none_of(same.questions.begin(), same.questions.end(), is_list));
}

TEST_CASE(
    "subscriptions: a set, of meshes and of ranks, whose events come once however often somebody "
    "subscribed") {
  Subscriptions set;
  const ProcId me = *ProcId::parse("unix:/a,client-11111111111b");
  CHECK(set.add(me, kControlled, {{1, 2}}));
  CHECK_FALSE(set.add(me, kControlled, {{1, 2}}));
  WatchEvent mine;
  mine.mesh = kControlled;
  mine.rank = rank_of(1);
  WatchEvent other = mine;
  other.rank = rank_of(0);
  WatchEvent over = mine;
  over.kind = WatchEvent::Kind::ended;
  CHECK(set.for_subscriber(me, {mine, other, over}).size() == 2);
  CHECK(set.add(me, kControlled));
  CHECK(set.for_subscriber(me, {mine, other, over}).size() == 3);
  WatchEvent host;
  host.kind = WatchEvent::Kind::host_unreachable;
  WatchEvent host_of_mesh = host;
  host_of_mesh.mesh = kControlled;
  CHECK(set.for_subscriber(me, {host, host_of_mesh}).size() == 1);
  CHECK(set.add(me, ""));
  CHECK(set.for_subscriber(me, {host, host_of_mesh}).size() == 1);
  CHECK(set.size() == 2);
  CHECK(set.count(kControlled) == 1);
  CHECK(set.remove(me, ""));
  CHECK_FALSE(set.remove(me, ""));
  CHECK(set.drop(me.key()));
  CHECK(set.subscribers().empty());
  CHECK(set.size() == 0);
}

TEST_CASE(
    "watch_feed: a gap is noticed, by the next event or by the heartbeat, and what comes again is "
    "told once") {
  auto mesh = running();
  WatchFeed feed;
  auto messages = to_messages(mesh.known(), 1, true);
  REQUIRE(messages.size() == 2);
  messages[0].sequence = 1;
  messages[1].sequence = 2;
  CHECK(feed.on_event(messages[0], t0).size() == 2);
  CHECK(feed.on_event(messages[0], t0).empty());
  CHECK_FALSE(feed.should_ask_again(t0));
  messages[1].sequence = 3;
  CHECK(feed.on_event(messages[1], t0).size() == 2);
  CHECK(feed.should_ask_again(t0));
  CHECK_FALSE(feed.should_ask_again(t0 + 1s));
  feed.on_subscribed();
  messages[0].sequence = 4;
  CHECK(feed.on_event(messages[0], t0).empty());
  wire::MeshHeartbeatT heartbeat;
  heartbeat.sequence = 5;
  heartbeat.interval_ms = 1000;
  feed.on_heartbeat(heartbeat, t0 + 5s);
  CHECK(feed.should_ask_again(t0 + 5s));
  CHECK_FALSE(feed.is_silent(t0 + 6s));
  CHECK(feed.is_silent(t0 + 7s));
}

TEST_CASE(
    "mesh_controller: between two lives of all its ranks a mesh has not ended, as long as somebody "
    "is there to begin them") {
  auto mesh = make({kA});
  auto news = news_of({rank_of(0), rank_of(1)});
  news.region = Region(*Extent::parse("host=1,gpu=2"));
  news.hosts = {kA};
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
  auto news = news_of({rank_of(0), rank_of(1)});
  news.region = Region(*Extent::parse("host=1,gpu=2"));
  news.hosts = {kA};
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
    "mesh_controller: a rank that waits and is stopped at its host is told once, and not "
    "restarted") {
  auto mesh = make({kA});
  auto news = news_of({rank_of(0), rank_of(1)});
  news.region = Region(*Extent::parse("host=1,gpu=2"));
  news.hosts = {kA};
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

inline wire::RankTrouble trouble_of(std::uint64_t rank, wire::Trouble trouble,
                                    std::uint64_t incarnation = 1) {
  return {rank, incarnation, 1, 12'345, trouble, 'T'};
}

inline RankUpdate troubles(std::vector<wire::RankTrouble> list) {
  return {.ranks = {}, .exit_reports = {}, .owner = {}, .troubles = std::move(list)};
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

TEST_CASE(
    "watch_feed: two ends of one rank are heard each with its own report, and what is no end has "
    "none") {
  std::vector<WatchEvent> events;
  const auto add = [&](const wire::RankState& state, const std::string& reason) {
    auto& event = events.emplace_back();
    event.mesh = kControlled;
    event.host = kA;
    event.rank = state;
    if (reason.empty()) return;
    auto exit_report = std::make_shared<wire::ExitReportT>(*exit_report_of(1));
    exit_report->reason = reason;
    event.exit_report = std::move(exit_report);
  };
  add(rank_of(1, wire::ProcState::ready, 3), "");
  add(rank_of(1, wire::ProcState::killed, 4), "first");
  add(rank_of(1, wire::ProcState::starting, 1, 2), "");
  add(rank_of(1, wire::ProcState::killed, 2, 2), "second");
  WatchFeed feed;
  std::vector<std::string> heard;
  for (const auto& message : to_messages(events, 1, false)) {
    for (const auto& event : feed.on_event(message, t0))
      heard.push_back(event.exit_report == nullptr ? "" : event.exit_report->reason);
  }
  CHECK(heard == std::vector<std::string>{"", "first", "", "second"});
}

TEST_CASE(
    "watch_feed: a trouble is told once, in order, and its end also when that message was lost") {
  using wire::Trouble;
  auto mesh = running();
  WatchFeed feed;
  std::uint64_t sequence = 0;
  const auto hear = [&](const std::vector<WatchEvent>& events, bool is_snapshot,
                        std::uint64_t number) {
    std::vector<WatchEvent> heard;
    for (auto& message : to_messages(events, 1, is_snapshot)) {
      message.sequence = number == 0 ? ++sequence : number;
      for (auto& event : feed.on_event(message, t0)) heard.push_back(std::move(event));
    }
    return heard;
  };
  CHECK(hear(mesh.known(), true, 0).size() == 4);
  const auto frozen = mesh.pushed(kA, troubles({trouble_of(1, Trouble::frozen)}), t0).events;
  const auto heard = hear(frozen, false, 0);
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].kind == WatchEvent::Kind::trouble);
  CHECK(heard[0].point() == "host=0/2,gpu=1/2");
  CHECK(heard[0].trouble.silent_ms() == 12'345);
  CHECK(hear(mesh.known(), true, 0).empty());
  // It is over, and nobody was told: what stands says so.
  mesh.pushed(kA, troubles({trouble_of(1, Trouble::none)}), t0);
  const auto over = hear(mesh.known(), true, 0);
  REQUIRE(over.size() == 1);
  CHECK(over[0].trouble.trouble() == Trouble::none);
  // What was overtaken on its way comes too late.
  CHECK(hear(frozen, false, sequence + 2).size() == 1);
  CHECK(hear(mesh.known({{1, 2}}), true, sequence + 1).empty());
  // What is wrong with a rank overtakes that it is ready, or is overtaken by that it is not any
  // more.
  WatchFeed other;
  const auto message = [](std::uint64_t number, std::vector<wire::RankState> ranks,
                          std::vector<wire::RankTrouble> list) {
    wire::MeshEventT event;
    event.mesh = kControlled;
    event.host = kA.to_string();
    event.sequence = number;
    event.ranks = std::move(ranks);
    event.troubles = std::move(list);
    return event;
  };
  CHECK(other.on_event(message(2, {}, {trouble_of(1, Trouble::frozen)}), t0).empty());
  CHECK(other.on_event(message(1, {rank_of(1)}, {}), t0).size() == 2);
  CHECK(other.on_event(message(4, {rank_of(1, wire::ProcState::stopping, 2)}, {}), t0).size() == 1);
  CHECK(other.on_event(message(3, {}, {trouble_of(1, Trouble::slow)}), t0).empty());
  // Another controller counts from 1.
  feed.restart();
  CHECK(hear(mesh.known(), true, 1).size() == 1);
}

TEST_CASE("watch_event: what is known travels in messages below the limit") {
  auto mesh = running();
  const std::string tail(300 * 1024, 'x');
  mesh.pushed(kA,
              {{rank_of(0, wire::ProcState::killed, 2), rank_of(1, wire::ProcState::killed, 2)},
               {exit_report_of(0, tail), exit_report_of(1, tail)}},
              t0);
  const auto messages = to_messages(mesh.known({{0, 2}}), 7, true);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].poll == 7);
  CHECK(messages[0].snapshot);
  CHECK(messages[0].host == kA.to_string());
  CHECK(messages[1].exit_reports.size() == 1);
  CHECK(messages[1].region != nullptr);
}

TEST_CASE(
    "event_json, SupervisionEvent: an end says its cause, who asked for it and why, and what it "
    "follows from") {
  auto mesh = running();
  auto state = rank_of(2, wire::ProcState::killed, 2);
  state.mutate_step(wire::StopStep::term);
  state.mutate_restarts(3);
  auto exit_report = std::make_shared<wire::ExitReportT>();
  exit_report->rank = 2;
  exit_report->reason = "killed by SIGTERM";
  exit_report->cause = wire::Cause::lease_lapsed;
  exit_report->consequence = true;
  exit_report->stopped_by = "host";
  exit_report->stop_reason = "its lease has lapsed";
  const auto told = mesh.pushed(kB, {{state}, {exit_report}}, t0);
  REQUIRE(told.events.size() == 1);
  const auto json = to_json_line(told.events[0], {});
  CHECK(json.find(
            "\"restarts\":3,\"cause\":\"lease_lapsed\",\"consequence\":true,\"because\":null,"
            "\"stop\":{\"step\":\"term\",\"by\":\"host\",\"reason\":\"its lease has lapsed\"}") !=
        std::string::npos);
  const auto text = to_supervision_event(told.events[0]).describe();
  CHECK(
      text.ends_with(": killed by SIGTERM; cause: lease_lapsed; stopped by host: its lease has "
                     "lapsed; a consequence; after 3 restarts"));
}

TEST_CASE("event_json: one line, whatever bytes a proc wrote") {
  auto mesh = running();
  const auto told =
      mesh.pushed(kB, {{rank_of(2, wire::ProcState::killed, 2)}, {exit_report_of(2)}}, t0);
  REQUIRE(told.events.size() == 1);
  const auto now = std::chrono::system_clock::time_point(1'500ms);
  CHECK(to_json_line(told.events[0], now) ==
        "{\"time\":\"1970-01-01T00:00:01.500Z\",\"event\":\"state\",\"mesh\":\"" + kControlled +
            "\",\"host\":\"unix:/b\",\"rank\":2,\"point\":\"host=1/2,gpu=0/"
            "2\",\"state\":\"killed\",\"pid\":42,\"exit_code\":null,\"signal\":9,"
            "\"reason\":\"killed by SIGKILL\",\"stderr_tail\":[\"last \xef\xbf\xbd words\"],"
            "\"restarts\":0,\"cause\":\"killed_from_outside\",\"consequence\":false,\"because\":"
            "null,\"stop\":null}");
  const auto frozen = mesh.pushed(kA, troubles({trouble_of(1, wire::Trouble::frozen)}), t0);
  REQUIRE(frozen.events.size() == 1);
  CHECK(to_json_line(frozen.events[0], now) ==
        "{\"time\":\"1970-01-01T00:00:01.500Z\",\"event\":\"trouble\",\"mesh\":\"" + kControlled +
            "\",\"host\":\"unix:/a\",\"rank\":1,\"point\":\"host=0/2,gpu=1/"
            "2\",\"trouble\":\"frozen\","
            "\"reason\":\"stopped by a signal, nothing from it for 12.3 s\"}");
  WatchEvent late;
  late.kind = WatchEvent::Kind::late;
  late.lateness = 21s;
  CHECK(to_json_line(late, now) ==
        "{\"time\":\"1970-01-01T00:00:01.500Z\",\"event\":\"late\",\"ms\":21000}");
}

}  // namespace meshbus::test::controlled

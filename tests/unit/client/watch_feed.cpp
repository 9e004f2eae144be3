// What a controller tells its subscribers: to each its part, on the way, and as JSON.
#include "client/controller/watch_feed.h"

#include <doctest/doctest.h>

#include "client/controller/event_json.h"
#include "client/controller/mesh_controller.h"
#include "client/controller/subscriptions.h"
#include "client/controller/supervision_event.h"
#include "tests/unit/client/controlled_mesh.h"
#include "wire/supervision_generated.h"

namespace meshbus::test::controlled {

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

TEST_CASE("watch_feed: a restart that two controllers have decided for is told once") {
  WatchFeed feed;
  const auto restart = [](std::uint64_t sequence, RankSet ranks,
                          std::vector<std::uint32_t> restarts) {
    WatchEvent event;
    event.kind = WatchEvent::Kind::restarting;
    event.mesh = kControlled;
    event.host = kA;
    event.ranks = std::move(ranks);
    event.restarts = std::move(restarts);
    event.problem = "of restart " + std::to_string(sequence);
    auto message = to_messages({event}, 1, false).at(0);
    message.sequence = sequence;
    return message;
  };
  CHECK(feed.on_event(restart(1, {{0, 2}}, {0, 3}), t0).size() == 1);
  // Another controller, which has not heard of the order of the one before.
  feed.restart();
  CHECK(feed.on_event(restart(1, {{1, 2}}, {3}), t0).empty());
  const auto other = feed.on_event(restart(2, {{0, 3}}, {1, 3, 0}), t0);
  REQUIRE(other.size() == 1);
  CHECK(to_string(other[0].ranks) == "0,2");
  CHECK(feed.on_event(restart(3, {{1, 2}}, {4}), t0).size() == 1);
  // An older controller does not say how often.
  CHECK(feed.on_event(restart(4, {{1, 2}}, {}), t0).size() == 1);
  CHECK(feed.on_event(restart(5, {{1, 2}}, {}), t0).size() == 1);
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

// meshbus-controller and meshes of actors (spec 8.1-8.4): real hosts, real procs that are killed,
// and subscribers.
#include <algorithm>
#include <csignal>

#include "common/wire/wire_values.h"
#include "tests/integration/controller/subscriber.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// Four procs of two hosts with an actor each, a controller that hears by push alone, and a
/// launcher.
struct WatchedActors {
  explicit WatchedActors(const std::string& poll = "1h")
      : controller({bin("meshbus-controller"), "--hosts", first.address() + "," + second.address(),
                    "--set", "supervision.poll=" + poll, "--set", "supervision.probe=200ms",
                    "--set", "watchdog=3h"}),
        context(must(Context::create())),
        hosts(must(HostMesh::attach(context, "hosts", {address(first), address(second)}))),
        procs(must(hosts.spawn("work", extent("gpu=2"),
                               {.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}},
                               heard.handlers()))),
        tally(must(procs.spawn_actors("counter", "tally", "0",
                                      {.on_failure = [](const ActorReport&) {}}))),
        name(procs.ref().mesh().to_string() + ",tally") {}
  static HostAddr address(const StandingHost& host) {
    return must(HostAddr::parse(host.address()));
  }
  void kill(std::uint64_t rank) {
    ::kill(static_cast<pid_t>(procs.known().ranks[rank].pid), SIGKILL);
  }
  /// The handler of that message throws, and two exceptions were behind it.
  void fail_actor(std::uint64_t rank) {
    const auto one = must(must(tally.at("gpu", rank % 2)).at("host", rank / 2));
    CHECK(must(one.call("throw", "no checkpoint", in_time))[0].error().code() ==
          ErrorCode::call_error);
  }

  StandingHost first;
  StandingHost second;
  Process controller;
  Context context;
  HostMesh hosts;
  Heard heard;
  ProcMesh procs;
  ActorMesh tally;
  std::string name;
};

/// All that was told of that rank, in order.
std::vector<wire::ProcState> states_of(const Subscriber& subscriber, std::uint64_t rank) {
  std::vector<wire::ProcState> states;
  for (const auto& state : subscriber.heard) {
    if (state.rank() == rank) states.push_back(state.state());
  }
  return states;
}

std::string reason_of(const Subscriber& subscriber, std::uint64_t rank) {
  std::string text;
  for (const auto& [number, reason] : subscriber.reasons) {
    if (number == rank) text += reason;
  }
  return text;
}

void subscribe(Subscriber& subscriber, const std::string& name, std::size_t ranks) {
  const auto self = subscriber.self();
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.ask<wire::SubscribeT>(self, name) == ErrorCode::none; }));
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() >= ranks; }));
}

using States = std::vector<wire::ProcState>;
constexpr auto kRunning = wire::ProcState::ready;
constexpr auto kStopped = wire::ProcState::stopped;
constexpr auto kFailed = wire::ProcState::failed;
const std::string kCauses =
    "in message throw: no checkpoint; because: cannot write; because: disk full";

}  // namespace

TEST_CASE(
    "controller: spec 8.3: an actor's failure is told once, with its causes, by push; its proc's "
    "death neither hides nor repeats it") {
  WatchedActors actors;
  Subscriber subscriber(WatchedActors::address(actors.first));
  subscribe(subscriber, actors.name, 4);
  actors.fail_actor(3);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 5; }));
  CHECK(reason_of(subscriber, 3) == kCauses);
  actors.kill(3);
  // The other one was killed later: by then a second report of the first would have come.
  REQUIRE(wait_until([&] { return actors.procs.known().ranks[3].is_terminal(); }, in_time));
  actors.kill(0);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 6; }));
  CHECK(states_of(subscriber, 3) == States{kRunning, kFailed});
  CHECK(states_of(subscriber, 0) == States{kRunning, kFailed});
  CHECK(reason_of(subscriber, 0).find("its proc has ended: killed by SIGKILL") == 0);
  CHECK(subscriber.heard.back().signal() == SIGKILL);

  wire::GetStateT get;
  get.mesh = actors.name;
  const auto answer = must(subscriber.ask(get));
  const auto* const overview = answer.body_as<wire::ControllerState>()->meshes()->Get(0);
  CHECK(overview->mesh()->str() == actors.name);
  CHECK(overview->overall() == wire::StatusKind::failed);
  CHECK(overview->monitored());
  CHECK(overview->live() == 2);
  CHECK(overview->failed() == 2);
  const auto statuses = must(from_wire(*overview->statuses(), 1 << 20));
  REQUIRE(statuses.find(1) != nullptr);
  CHECK(statuses.find(1)->kind() == Status::Kind::running);
  REQUIRE(statuses.find(3) != nullptr);
  CHECK(statuses.find(3)->reason() == kCauses);
  get.mesh = actors.name + "s";
  CHECK(subscriber.ask(get).error().code() == ErrorCode::not_exist);
}

TEST_CASE(
    "controller: spec 8.2, 8.4: late ones are told what stands, failed and stopped included; a "
    "stop by the controller; the end") {
  WatchedActors actors;
  // Before anybody wants to hear of them: one fails, and the proc of another is killed.
  actors.fail_actor(1);
  actors.kill(2);
  REQUIRE(wait_until([&] { return actors.procs.known().ranks[2].is_terminal(); }, in_time));
  Subscriber early(WatchedActors::address(actors.first));
  subscribe(early, actors.name, 4);
  CHECK(states_of(early, 0) == States{kRunning});
  CHECK(reason_of(early, 1) == kCauses);
  CHECK(states_of(early, 2) == States{kFailed});
  CHECK(reason_of(early, 2).find("its proc has ended: killed by SIGKILL") == 0);

  wire::StopProcsT stop;
  stop.mesh = actors.name;
  stop.reason = "seen enough";
  stop.grace_ms = 5000;
  CHECK(early.ask(stop).has_value());
  CHECK(early.ask(stop).has_value());
  REQUIRE(early.turn_until([&] { return early.kinds == std::vector{wire::MeshEventKind::ended}; }));
  CHECK(states_of(early, 0).back() == kStopped);
  CHECK(states_of(early, 3).back() == kStopped);
  CHECK(reason_of(early, 3) == "seen enough");
  // The procs are there, and not the controller's to stop by that.
  CHECK_FALSE(actors.procs.known().ranks[0].is_terminal());

  Subscriber late(WatchedActors::address(actors.second));
  late.controller = early.controller;
  subscribe(late, actors.name, 4);
  REQUIRE(late.turn_until([&] { return late.kinds == std::vector{wire::MeshEventKind::ended}; }));
  for (const std::uint64_t rank : {0U, 3U}) CHECK(states_of(late, rank) == States{kStopped});
  for (const std::uint64_t rank : {1U, 2U}) CHECK(states_of(late, rank) == States{kFailed});
  wire::GetStateT get;
  get.mesh = actors.name;
  CHECK_FALSE(must(late.ask(get)).body_as<wire::ControllerState>()->meshes()->Get(0)->monitored());
}

TEST_CASE(
    "controller: spec 8.1: actors that are made after the subscription are heard of; heartbeats "
    "name them; names are checked") {
  WatchedActors actors("300ms");
  Subscriber subscriber(WatchedActors::address(actors.first));
  const auto self = subscriber.self();
  const auto mesh = actors.procs.ref().mesh().to_string();
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.ask<wire::SubscribeT>(self, mesh + ",late") == ErrorCode::none; }));
  CHECK(subscriber.ask<wire::SubscribeT>(self, mesh + ",9 lives") == ErrorCode::parse_error);
  CHECK(subscriber.ask<wire::SubscribeT>(self, mesh + ",late", {{1, 2}}) == ErrorCode::none);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats >= 3; }));
  CHECK(subscriber.heard.empty());
  const auto late = must(
      actors.procs.spawn_actors("counter", "late", "0", {.on_failure = [](const ActorReport&) {}}));
  // A subscriber to a slice hears of its ranks only.
  REQUIRE(subscriber.turn_until(
      [&] { return !subscriber.heard.empty() && subscriber.heard.back().state() == kRunning; }));
  actors.kill(0);
  REQUIRE(wait_until([&] { return actors.procs.known().ranks[0].is_terminal(); }, in_time));
  actors.kill(1);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.back().state() == kFailed; }));
  CHECK(states_of(subscriber, 0).empty());
  CHECK(subscriber.exit_reports == 1);
}

TEST_CASE("cli: watch and status show the actors of a mesh, and watch ends with them") {
  WatchedActors actors;
  const auto hosts = actors.first.address() + "," + actors.second.address();
  const auto mesh = actors.procs.ref().mesh().to_string();
  Process text(cli({"watch", "work", "--actor", "tally", "--hosts", hosts}));
  Process lines(cli({"watch", "work", "--actor", "tally", "--json", "--hosts", hosts}));
  REQUIRE(wait_until(
      [&] { return lines_of(text.out()).size() >= 4 && lines_of(lines.out()).size() >= 4; },
      in_time));
  CHECK(text.out().find(mesh + " rank 3 (host=1/2,gpu=1/2) on " + actors.second.address() +
                        ": actor tally running\n") != std::string::npos);
  actors.fail_actor(3);
  actors.kill(0);
  REQUIRE(wait_until([&] { return actors.procs.known().ranks[0].is_terminal(); }, in_time));
  const auto status = run_cli({"status", "work", "--actor", "tally", "--json", "--hosts", hosts});
  INFO(status.out << status.err);
  CHECK(status.status == ExitStatus::exited(0));
  const json groups = parse_json(status.out)[0].at("statuses");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0] == json({{"status", "Running"}, {"reason", nullptr}, {"ranks", "1-2"}}));
  const auto words = run_cli({"status", "work", "--actor", "tally", "--hosts", hosts}).out;
  CHECK(words.find(mesh + "  actors tally  Running: 1-2; Failed(") == 0);
  CHECK(words.find("because: disk full") != std::string::npos);
  CHECK(words.find("its proc has ended: killed by SIGKILL") != std::string::npos);
  must(actors.tally.stop({.reason = "seen enough"}));
  CHECK(text.wait_exit(in_time) == ExitStatus::exited(1));
  CHECK(lines.wait_exit(in_time) == ExitStatus::exited(1));
  INFO(text.out());
  CHECK(text.out().find(": actor tally failed, " + kCauses + "\n") != std::string::npos);
  CHECK(text.out().find(": actor tally failed, its proc has ended: killed by SIGKILL") !=
        std::string::npos);
  CHECK(text.out().find(": actor tally stopped, seen enough\n") != std::string::npos);
  CHECK(text.out().find("actors tally of " + mesh + " have ended: Failed\n") != std::string::npos);
  std::size_t failures = 0;
  for (const auto& line : lines_of(lines.out())) {
    const json event = parse_json(line);
    CHECK(event.at("mesh") == mesh);
    CHECK(event.at("actor") == "tally");
    if (event.at("event") != "state" || event.at("state") != "failed") continue;
    ++failures;
    if (event.at("rank") == 3) CHECK(event.at("causes") == json({"cannot write", "disk full"}));
    CHECK(event.at("proc_ended") == (event.at("rank") == 0));
  }
  CHECK(failures == 2);
  const auto wrong = run_cli({"status", "work", "--actor", "9 lives", "--hosts", hosts});
  CHECK(wrong.status == ExitStatus::exited(2));
}

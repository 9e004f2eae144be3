// What keeps procs alive: owners, leases, the host itself, and what happens when one of these is
// lost.
#include <doctest/doctest.h>

#include <csignal>

#include "agent/host/ownership/actor_leases.h"
#include "tests/integration/agent/harness.h"
#include "tests/support/environment.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;

TEST_CASE("agent: the owner is gone, its meshes end within two seconds, others live on") {
  AgentHarness harness;
  auto owner = harness.make_launcher("client");
  auto request = harness.shell("trap '' TERM; echo up; while :; do sleep 1; done", 3);
  request.owner = owner->id().to_string();
  request.output = wire::OutputMode::stream;
  const auto mesh = request.mesh;
  CHECK(harness.ask<wire::SpawnAccepted>(*owner, std::move(request)).has_value());
  const auto mine = harness.run_shell("exec sleep 300");
  harness.wait("ready", [&] {
    auto& ranks = owner->mesh(mesh);
    return ranks[0].out == "up\n" && ranks[1].out == "up\n" && ranks[2].out == "up\n";
  });
  harness.wait_state(mine, State::ready);
  owner.reset();
  const auto begin = std::chrono::steady_clock::now();
  harness.wait("the end of the mesh", [&] { return harness.agent().live() == 1; });
  CHECK(std::chrono::steady_clock::now() - begin < 2s * slowness);
  const auto state = harness.ask<wire::MeshState>(get_state(mesh));
  REQUIRE(state.has_value());
  for (const auto& rank : state->ranks) {
    CHECK(rank.state() == State::stopped);
    CHECK(rank.step() == wire::StopStep::kill);
  }
  harness.wait("exit reports", [&] {
    return harness.ask<wire::MeshState>(get_state(mesh))->exit_reports.size() == 3;
  });
  CHECK(harness.ask<wire::MeshState>(get_state(mesh))->exit_reports[0]->stop_reason ==
        "launcher gone");
  CHECK(harness.rank(mine).state() == State::ready);
  harness.stop(mine, 0ms);
  harness.wait_ended(mine);
}

/// A second host, of which only the broker is needed, and a launcher that is at home there.
struct OtherHost {
  explicit OtherHost(AgentHarness& harness) : harness_(harness) {
    start();
    launcher = connect();
  }
  void start() { broker = start_broker(harness_.loop(), "unix:" + (harness_.dir() / "other")); }
  std::unique_ptr<TestLauncher> connect() {
    auto made = std::make_unique<TestLauncher>(
        harness_.loop(), broker->address().zmq_endpoint(),
        ProcId(broker->address(), *Name::make("client")).to_string());
    harness_.wait("a session with the other broker", [&] { return made->bus().is_up(); });
    return made;
  }
  std::string spawn(wire::SpawnProcsT request) {
    const std::string mesh = request.mesh;
    request.owner = launcher->id().to_string();
    const auto accepted = harness_.ask<wire::SpawnAccepted>(*launcher, std::move(request));
    if (!accepted) throw std::runtime_error(accepted.error().to_string());
    return mesh;
  }

  std::unique_ptr<Broker> broker;
  std::unique_ptr<TestLauncher> launcher;

 private:
  AgentHarness& harness_;
};

TEST_CASE("agent: an owner on another host hears everything, and its end is noticed") {
  AgentHarness harness;
  OtherHost other(harness);
  auto request = harness.shell(
      "echo $RANK; if [ $RANK = 1 ]; then echo no >&2; exit 4; fi; exec sleep 300", 2);
  request.output = wire::OutputMode::stream;
  const auto mesh = other.spawn(std::move(request));
  auto& ranks = other.launcher->mesh(mesh);
  harness.wait("an exit report", [&] {
    return ranks[1].exit_report.has_value() && ranks[0].state() == State::ready;
  });
  harness.wait("output", [&] {
    return ranks[0].out == "0\n" && ranks[1].out == "1\n" && ranks[1].err == "no\n";
  });
  CHECK(ranks[1].exit_report->reason == "exit 4");
  CHECK(other.launcher->problems.empty());
  harness.run_for(500ms);
  CHECK(harness.agent().live() == 1);
  other.launcher.reset();
  const auto begin = std::chrono::steady_clock::now();
  harness.wait("the end", [&] { return harness.agent().live() == 0; });
  CHECK(std::chrono::steady_clock::now() - begin < 2s * slowness);
}

TEST_CASE(
    "agent: the broker of the owner's host is lost: no proof of anything, so the lease decides") {
  AgentHarness harness;
  OtherHost other(harness);
  auto request = harness.shell("exec sleep 300");
  request.lease_ms = 3000;
  const auto mesh = other.spawn(std::move(request));
  harness.wait("ready", [&] { return other.launcher->mesh(mesh)[0].state() == State::ready; });
  other.broker.reset();
  harness.run_for(1500ms);
  CHECK(harness.agent().live() == 1);
  harness.wait("the lease to lapse", [&] { return harness.agent().live() == 0; });
  CHECK(harness.ask<wire::MeshState>(get_state(mesh))->ranks[0].step() == wire::StopStep::term);
}

TEST_CASE("agent: an owner that never was there is gone too") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300");
  request.owner = ProcId(harness.host(), *Name::make("client")).to_string();
  CHECK(harness.ask<wire::SpawnAccepted>(std::move(request)).has_value());
  harness.wait("the end", [&] { return harness.agent().live() == 0; }, 5s);
}

TEST_CASE("agent: a lease that nobody renews lapses; a renewed one does not") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300");
  request.lease_ms = 2000;
  const auto left = harness.spawn(wire::SpawnProcsT(request));
  request.mesh = Name::make("jobs")->to_string();
  const auto renewed = harness.spawn(wire::SpawnProcsT(request));
  wire::RenewLeaseT renew;
  renew.meshes = {renewed};
  renew.lease_ms = 2000;
  harness.wait("the one that is not renewed to lapse", [&] {
    CHECK(harness.ask<wire::Ack>(renew).has_value());
    return harness.rank(left).has_ended() && harness.rank(left).exit_report.has_value();
  });
  CHECK(harness.rank(left).state() == State::stopped);
  CHECK(harness.rank(left).exit_report->stop_reason == "lease lapsed");
  CHECK(harness.rank(renewed).state() == State::ready);
  harness.wait_ended(renewed);
  CHECK(harness.rank(renewed).exit_report->stop_reason == "lease lapsed");
}

TEST_CASE(
    "agent: spec 5.4: a host without room for one more lease of actors says so, and renews all "
    "else that the message names") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300");
  wire::RenewLeaseT renew;
  renew.lease_ms = 3'600'000;
  for (std::size_t i = 0; i < host::ActorLeases::kMost; ++i)
    renew.meshes.push_back(mesh + "," + std::to_string(i));
  CHECK(harness.ask<wire::Ack>(renew).has_value());
  renew.lease_ms = 7'200'000;
  renew.meshes = {mesh + ",more", mesh};
  CHECK(code_of(harness.ask<wire::Ack>(renew)) == ErrorCode::queue_full);
  CHECK(harness.ask<wire::MeshState>(get_state(mesh))->ownership->lease_ms == 7'200'000);
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh);
}

TEST_CASE(
    "agent: shutdown ends everything, so many at a time, then answers, to everybody who asks") {
  AgentHarness harness;
  const auto deaf = harness.run_until_up("trap '' TERM; echo up; while :; do sleep 1; done", 4);
  const auto good = harness.run_shell("exec sleep 300", 4);
  harness.wait_state(good, State::ready, 4);
  wire::ShutdownHostT shutdown;
  shutdown.grace_ms = 300;
  shutdown.in_flight = 2;
  shutdown.reason = "evening";
  const auto begin = std::chrono::steady_clock::now();
  auto second = harness.make_launcher("client");
  std::optional<wire::ShutdownSummaryT> early;
  second->bus().request(Destination::to_agent(harness.host()), wire::ShutdownHostT(shutdown), 30s,
                        [&](const Result<ControlMessage>& answer) {
                          REQUIRE(answer.has_value());
                          answer->body_as<wire::ShutdownSummary>()->UnPackTo(&early.emplace());
                        });
  const auto summary = harness.ask<wire::ShutdownSummary>(wire::ShutdownHostT(shutdown));
  REQUIRE(summary.has_value());
  // Four deaf ones, two at a time.
  CHECK(std::chrono::steady_clock::now() - begin >= 600ms);
  CHECK(summary->attempted == 8);
  CHECK(summary->ok == 8);
  CHECK(summary->failed == 0);
  // The ends were told before the summary.
  for (const auto& mesh : {deaf, good}) {
    for (const std::uint64_t rank : {0U, 1U, 2U, 3U}) {
      CHECK(harness.rank(mesh, rank).state() == State::stopped);
      REQUIRE(harness.rank(mesh, rank).exit_report.has_value());
      CHECK(harness.rank(mesh, rank).exit_report->stop_reason == "evening");
    }
  }
  harness.wait("the other answer", [&] { return early.has_value(); });
  CHECK(early->attempted == 8);
  harness.wait("the end of the host", [&] { return harness.shut_down.has_value(); });
  CHECK(*harness.shut_down);
  const auto again = harness.ask<wire::ShutdownSummary>(wire::ShutdownHostT(shutdown));
  REQUIRE(again.has_value());
  CHECK(again->attempted == 8);
  CHECK(code_of(harness.ask<wire::SpawnAccepted>(harness.shell("exit 0"))) == ErrorCode::refused);
}

TEST_CASE("agent: a shutdown with nothing to stop, and one in the middle of a start") {
  AgentHarness harness({.settings = {{"spawn.in_flight", "2"}}});
  SUBCASE("nothing") {
    CHECK(harness.ask<wire::ShutdownSummary>(wire::ShutdownHostT{})->attempted == 0);
  }
  SUBCASE("starting") {
    auto request = harness.shell("exec sleep 300", 50);
    const auto mesh = request.mesh;
    harness.launcher->bus().request(Destination::to_agent(harness.host()), std::move(request), 30s,
                                    [](const Result<ControlMessage>&) {});
    const auto summary = harness.ask<wire::ShutdownSummary>(wire::ShutdownHostT{});
    REQUIRE(summary.has_value());
    CHECK(summary->attempted == 50);
    CHECK(summary->ok == 50);
    CHECK(harness.agent().live() == 0);
    harness.wait_ended(mesh, 50);
  }
  harness.wait("the end of the host", [&] { return harness.shut_down.has_value(); });
}

TEST_CASE(
    "agent: the broker is lost and comes back: procs live on, the owner is told everything, and is "
    "not taken for gone") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300", 2);
  const auto brief = harness.run_shell("sleep 0.5; echo bye >&2; exit 6");
  harness.wait_state(mesh, State::ready, 2);
  harness.wait_state(brief, State::ready);
  harness.stop_broker();
  harness.run_for(1000ms);
  CHECK(harness.agent().live() == 2);
  harness.start_broker();
  harness.wait("sessions", [&] { return harness.ups == 2 && harness.launcher->bus().is_up(); });
  harness.wait_ended(brief);
  CHECK(harness.rank(brief).states.back().exit_code() == 6);
  harness.run_for(2500ms);
  CHECK(harness.agent().live() == 2);
  CHECK(harness.launcher->problems.empty());
  // The owner is watched again.
  harness.launcher.reset();
  harness.wait("the end", [&] { return harness.agent().live() == 0; }, 5s);
}

TEST_CASE("agent: the owner's connection is cut and comes back: not gone") {
  AgentHarness harness;
  const auto options = session_options(
      harness.endpoint(), hello_of(wire::PeerKind::launcher,
                                   ProcId(harness.host(), *Name::make("client")).to_string(), 5));
  const auto connect = [&] {
    auto bus = std::make_unique<Bus>(harness.reactor(), options, Dispatcher(), Bus::Events());
    harness.wait("a session", [&] { return bus->is_up(); });
    return bus;
  };
  auto owner = connect();
  auto request = harness.shell("exec sleep 300");
  request.owner = options.hello.peer;
  CHECK(harness.ask<wire::SpawnAccepted>(std::move(request)).has_value());
  owner.reset();
  harness.run_for(20ms);
  owner = connect();
  harness.run_for(2500ms);
  CHECK(harness.agent().live() == 1);
  owner.reset();
  harness.wait("the end", [&] { return harness.agent().live() == 0; }, 5s);
}

TEST_CASE("agent: the keeper is lost: every proc is reported as failed") {
  AgentHarness harness;
  const auto mesh = harness.run_until_up("echo last words >&2; echo up; exec sleep 300", 3);
  harness.keeper().send_signal(SIGKILL);
  harness.wait("the loss", [&] { return harness.keeper_lost; });
  harness.wait_ended(mesh, 3);
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
    CHECK(rank.state() == State::failed);
    CHECK(rank.exit_report->reason.starts_with("keeper lost"));
    CHECK(std::string(rank.exit_report->stderr_tail.begin(), rank.exit_report->stderr_tail.end()) ==
          "last words\n");
  }
}

}  // namespace
}  // namespace meshbus::test

// Procs that speak for themselves: hello, ready, stop in order.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/integration/agent/harness.h"
#include "tests/support/environment.h"
#include "tests/world/session_options.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;

/// A peer that has the token of a proc, as if it were that proc.
class FakeProc {
 public:
  FakeProc(AgentHarness& harness, const std::string& proc, std::uint64_t incarnation)
      : harness_(harness) {
    auto options =
        session_options(harness.endpoint(), hello_of(wire::PeerKind::proc, proc, incarnation));
    options.hello.token = tokens().make(proc, incarnation);
    Dispatcher handlers;
    handlers.on<wire::StopAndExit>(Role::host,
                                   [this](const Request& request, const wire::StopAndExit& stop) {
                                     stop_grace = stop.grace_ms();
                                     stop_reason = text_of(stop.reason());
                                     bus_->answer(request, wire::AckT());
                                   });
    bus_ = std::make_unique<Bus>(harness.reactor(), std::move(options), std::move(handlers),
                                 Bus::Events());
    harness.wait("the proc's session", [this] { return bus_->is_up(); });
  }

  template <typename Body>
  Result<void> ask(Body body) {
    std::optional<Result<void>> done;
    bus_->request(Destination::to_agent(harness_.host()), std::move(body), 20s,
                  [&](const Result<ControlMessage>& answer) {
                    done = answer ? Result<void>() : Result<void>(fail(answer.error()));
                  });
    harness_.wait("an answer", [&] { return done.has_value(); });
    return *done;
  }

  std::optional<std::uint32_t> stop_grace;
  std::string stop_reason;

 private:
  AgentHarness& harness_;
  std::unique_ptr<Bus> bus_;
};

TEST_CASE("agent: a mesh proc is Ready when it says so itself, and only itself") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300", 2);
  request.kind = wire::ProcKind::mesh;
  request.ready_limit_ms = 1500;
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_state(mesh, State::running, 2);
  const auto proc = [&](std::uint64_t rank) {
    return ProcId(harness.host(), proc_name(*Name::parse(mesh), rank)).to_string();
  };
  const auto life = [&](std::uint64_t rank) {
    return harness.rank(mesh, rank).states.back().incarnation();
  };
  wire::ProcReadyT ready;
  ready.proc = proc(0);
  ready.incarnation = life(0);
  wire::ProcHeartbeatT beat;
  beat.proc = proc(0);
  {
    FakeProc stranger(harness,
                      ProcId(harness.host(), proc_name(*Name::make("jobs"), 0)).to_string(), 1);
    CHECK(code_of(stranger.ask(wire::ProcReadyT(ready))) == ErrorCode::identity_mismatch);
    CHECK(code_of(stranger.ask(wire::ProcHeartbeatT(beat))) == ErrorCode::identity_mismatch);
    CHECK(code_of(stranger.ask(harness.shell("exit 0"))) == ErrorCode::unauthorised);
    FakeProc one(harness, proc(1), life(1));
    CHECK(code_of(one.ask(wire::ProcReadyT(ready))) ==
          ErrorCode::identity_mismatch);  // speaks for another rank
    FakeProc earlier(harness, proc(0), life(0) + 1);
    CHECK(code_of(earlier.ask(wire::ProcReadyT(ready))) ==
          ErrorCode::identity_mismatch);  // another life
  }
  CHECK(harness.rank(mesh, 0).state() == State::running);
  FakeProc zero(harness, proc(0), life(0));
  CHECK(zero.ask(wire::ProcReadyT(ready)).has_value());
  CHECK(zero.ask(wire::ProcReadyT(ready)).has_value());
  CHECK(zero.ask(wire::ProcHeartbeatT(beat)).has_value());
  harness.wait("ready", [&] { return harness.rank(mesh, 0).state() == State::ready; });
  // Rank 1 says nothing.
  harness.wait("the limit", [&] { return harness.rank(mesh, 1).exit_report.has_value(); });
  CHECK(harness.rank(mesh, 1).state() == State::failed);
  CHECK(harness.rank(mesh, 1).exit_report->code == wire::ErrorCode::timeout);
  CHECK(harness.rank(mesh, 1).exit_report->reason ==
        "not ready within 1500ms; stage: exec'd, no hello from it yet (a mesh program calls "
        "bootstrap() first)");
  CHECK(harness.rank(mesh, 1).states.back().step() == wire::StopStep::none);
  CHECK(harness.rank(mesh, 0).state() == State::ready);
  // It is asked first, and has half of the grace.
  harness.stop(mesh, 2s);
  harness.wait("the question", [&] { return zero.stop_grace.has_value(); });
  CHECK(*zero.stop_grace > 800);
  CHECK(*zero.stop_grace <= 1000);
  CHECK(zero.stop_reason == "the test is over");
  CHECK(harness.rank(mesh, 0).state() == State::stopping);
  harness.wait_ended(mesh, 2);
  CHECK(harness.rank(mesh, 0).states.back().step() == wire::StopStep::term);
  CHECK(code_of(zero.ask(wire::ProcHeartbeatT(beat))) == ErrorCode::identity_mismatch);
}

TEST_CASE("agent: a mesh proc that cannot be asked gets SIGTERM at once") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300");
  request.kind = wire::ProcKind::mesh;
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_state(mesh, State::running);
  wire::ProcReadyT ready;
  ready.proc = ProcId(harness.host(), proc_name(*Name::parse(mesh), 0)).to_string();
  ready.incarnation = harness.rank(mesh).states.back().incarnation();
  {
    FakeProc proc(harness, ready.proc, ready.incarnation);
    CHECK(proc.ask(wire::ProcReadyT(ready)).has_value());
  }
  harness.wait_state(mesh, State::ready);
  // Until the broker knows that its connection is gone the order goes there, and the agent waits
  // for an answer.
  harness.wait("the broker has lost it", [&] { return harness.broker().peers() == 2; });
  const auto begin = std::chrono::steady_clock::now();
  harness.stop(mesh, 60s);
  harness.wait_ended(mesh);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(harness.rank(mesh).states.back().step() == wire::StopStep::term);
}

TEST_CASE("agent: a mesh proc that is ready before its birth is heard of can be frozen, too") {
  AgentHarness harness({.settings = {{"heartbeat", "200ms"}, {"session.away", "1s"}}});
  harness.keeper().send_signal(SIGSTOP);
  auto request = harness.shell("exec sleep 300");
  request.kind = wire::ProcKind::mesh;
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_state(mesh, State::starting);
  wire::ProcReadyT ready;
  ready.proc = ProcId(harness.host(), proc_name(*Name::parse(mesh), 0)).to_string();
  ready.incarnation = harness.rank(mesh).states.back().incarnation();
  // It never says anything else.
  FakeProc proc(harness, ready.proc, ready.incarnation);
  CHECK(proc.ask(wire::ProcReadyT(ready)).has_value());
  CHECK(harness.rank(mesh).state() == State::starting);
  harness.keeper().send_signal(SIGCONT);
  harness.wait_state(mesh, State::ready);
  const auto is_frozen = [&] {
    const auto state = harness.ask<wire::MeshState>(get_state(mesh));
    REQUIRE(state.has_value());
    return !state->troubles.empty() && state->troubles.front().trouble() == wire::Trouble::frozen;
  };
  const auto deadline = std::chrono::steady_clock::now() + 40s;
  bool was_frozen = is_frozen();
  while (!was_frozen && std::chrono::steady_clock::now() < deadline) {
    harness.run_for(50ms);
    was_frozen = is_frozen();
  }
  CHECK(was_frozen);
  harness.stop(mesh, 0s);
  harness.wait_ended(mesh);
}

TEST_CASE("agent: a real mesh proc: hello, ready, stop in order") {
  AgentHarness harness;
  auto request = harness.command({bin("meshbus_test_proc"), "serve"}, 4);
  request.kind = wire::ProcKind::mesh;
  request.ready_limit_ms = 30'000;
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_state(mesh, State::ready, 4);
  harness.stop(mesh, 20s);
  harness.wait_ended(mesh, 4);
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
    CHECK(rank.state() == State::stopped);
    CHECK(rank.states.back().exit_code() == 0);
    CHECK(rank.states.back().step() == wire::StopStep::asked);
    CHECK(rank.exit_report->reason == "exit 0");
  }
}

}  // namespace
}  // namespace meshbus::test

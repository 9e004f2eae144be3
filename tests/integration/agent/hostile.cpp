// No message, however malformed, late or repeated, may crash an agent (spec 3.3).
#include <doctest/doctest.h>

#include <random>

#include "common/base/log.h"
#include "tests/integration/agent/harness.h"
#include "tests/world/session_options.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/logs_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

/// One of each message that an agent understands, and some that it does not, all about one mesh.
std::vector<std::string> some_of_each(AgentHarness& harness, const std::string& mesh) {
  std::vector<std::string> messages;
  std::uint64_t id = 1'000'000;
  const auto add = [&](auto body) {
    messages.push_back(encode_control({.id = ++id, .deadline_ms = 1000}, std::move(body)));
  };
  auto spawn = harness.command({"/bin/true", "argument"}, 3);
  spawn.input_ranks = {wire::RankInterval(0, 2)};
  spawn.output = wire::OutputMode::stream;
  spawn.lease_ms = 60'000;
  spawn.ready_limit_ms = 1000;
  add(wire::SpawnProcsT(spawn));
  spawn.mesh = mesh;
  add(wire::SpawnProcsT(spawn));
  const std::vector<wire::RankInterval> ranks{wire::RankInterval(0, 1), wire::RankInterval(2, 3)};
  wire::StopProcsT stop;
  stop.mesh = mesh;
  stop.ranks = {wire::RankInterval(2, 3)};
  stop.reason = stop.requester = "somebody";
  add(stop);
  wire::SignalProcsT signal;
  signal.mesh = mesh;
  signal.ranks = ranks;
  signal.signal = 28;  // SIGWINCH: nobody minds
  add(signal);
  wire::WriteInputT input;
  input.mesh = mesh;
  input.data = {1, 2, 3};
  add(input);
  wire::RenewLeaseT lease;
  lease.meshes = {mesh, "other-13Se1Maqzryj"};
  lease.lease_ms = 100'000;
  add(lease);
  add(wire::GetFreePortT());
  add(wire::GetHostT());
  add(wire::ListMeshesT());
  wire::GetStateT state;
  state.mesh = mesh;
  add(state);
  wire::StreamStateT stream;
  stream.mesh = mesh;
  stream.subscriber = harness.launcher->id().to_string();
  add(stream);
  wire::StopStreamT stop_stream;
  stop_stream.mesh = mesh;
  stop_stream.subscriber = stream.subscriber;
  add(stop_stream);
  wire::OutputTakenT taken;
  taken.mesh = mesh;
  taken.bytes = 1000;
  add(taken);
  wire::ProcReadyT ready;
  ready.proc = ProcId(harness.host(), proc_name(*Name::parse(mesh), 0)).to_string();
  add(ready);
  wire::ProcHeartbeatT beat;
  beat.proc = ready.proc;
  add(beat);
  wire::GoneT gone;
  gone.proc = stream.subscriber;
  add(gone);
  wire::StopAndExitT stop_and_exit;
  add(stop_and_exit);
  add(wire::AckT());
  return messages;
}

/// The message as it is, or cut, or with some wrong bits.
std::string perhaps_spoilt(std::string bytes, std::minstd_rand& random) {
  switch (random() % 4) {
    case 0: break;  // as it is, again and again
    case 1: bytes.resize(random() % (bytes.size() + 1)); break;
    default:
      for (auto spoilt = random() % 8 + 1; spoilt > 0; --spoilt) {
        // Mostly the tables, which come first or last; the texts in between would only name other
        // programs.
        const auto at = random() % 2 == 0 ? random() % std::min<std::size_t>(bytes.size(), 120)
                                          : random() % bytes.size();
        if (random() % 3 == 0) {
          bytes[at] = static_cast<char>(random() % 256);
        } else {
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        }
      }
  }
  return bytes;
}

TEST_CASE(
    "agent: thousands of spoilt, late and repeated messages do it no harm, nor while it shuts "
    "down, nor then") {
  std::optional<Result<ControlMessage>> answer;  // may come after we gave up
  AgentHarness harness;
  const auto mesh = harness.spawn(harness.command({"cat"}, 3));
  const auto victims = harness.run_shell("exec sleep 300");
  harness.wait_state(victims, wire::ProcState::ready);
  auto messages = some_of_each(harness, mesh);

  Session session(
      harness.reactor(),
      session_options(harness.endpoint(),
                      hello_of(wire::PeerKind::launcher,
                               ProcId(harness.host(), *Name::make("client")).to_string(), 77)),
      Session::Events());
  harness.wait("a session", [&] { return session.is_up(); });
  const auto agent = Destination::to_agent(harness.host());
  wire::Envelope envelope;
  envelope.mutate_destination_proc(agent.proc);
  envelope.mutate_destination_host(agent.host);
  envelope.mutate_kind(wire::Kind::control);
  envelope.mutate_flags(kFlagNoReturn);

  log::set_sink([](log::Level, std::string_view) {},
                log::Level::error);  // thousands of lines about what is wrong with them
  std::minstd_rand random(20261120);
  std::uint64_t sent = 0;
  const auto send_some = [&](std::uint64_t count) {
    for (const auto end = sent + count; sent < end; ++sent) {
      envelope.mutate_sequence(sent + 1);
      envelope.mutate_lane(random() % 2 == 0 ? wire::Lane::control : wire::Lane::data);
      REQUIRE(session.push(envelope, perhaps_spoilt(messages[random() % messages.size()], random)));
      if (sent % 50 == 0) harness.reactor().turn(1ms);
    }
    harness.wait("all of it to leave", [&] { return session.outbox().empty(); });
  };
  send_some(6000);
  // It still answers, and what nobody meant still runs.
  CHECK(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
  CHECK(harness.rank(victims).state() == wire::ProcState::ready);

  // The same while it shuts down, which takes the grace because one is deaf, and when it has.
  harness.run_until_up("trap '' TERM; echo up; while :; do sleep 0.1; done");
  wire::ShutdownHostT shutdown;
  shutdown.grace_ms = 1000;
  shutdown.in_flight = 256;
  messages.push_back(
      encode_control({.id = 999'999, .deadline_ms = 1000}, wire::ShutdownHostT(shutdown)));
  harness.launcher->bus().request(agent, wire::ShutdownHostT(shutdown), 30s,
                                  [&](Result<ControlMessage> got) { answer = std::move(got); });
  harness.run_for(100ms);
  REQUIRE_FALSE(answer.has_value());
  while (!answer) send_some(500);
  send_some(3000);
  CHECK(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
  const auto again = harness.ask<wire::ShutdownSummary>(shutdown);
  log::set_sink({}, log::Level::warn);
  REQUIRE(again.has_value());
  CHECK(again->failed == 0);
  CHECK(harness.shut_down == true);
  CHECK(harness.agent().live() == 0);
  CHECK(code_of(harness.ask<wire::SpawnAccepted>(harness.command({"/bin/true"}))) ==
        ErrorCode::refused);
  CHECK_FALSE(harness.keeper_lost);
  REQUIRE(answer->has_value());
  CHECK((*answer)->body_as<wire::ShutdownSummary>() != nullptr);
}

}  // namespace
}  // namespace meshbus::test

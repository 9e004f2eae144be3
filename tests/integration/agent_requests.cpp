// What is asked of a host agent besides starting and stopping, and how it refuses.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "tests/integration/agent_harness.h"
#include "tests/support/environment.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;

/// A peer that has the token of a proc, as if it were that proc.
class FakeProc {
 public:
  FakeProc(AgentHarness& harness, const std::string& proc, std::uint64_t incarnation) : harness_(harness) {
    Session::Options options;
    options.endpoint = harness.endpoint();
    options.hello.version = 1;
    options.hello.peer = proc;
    options.hello.kind = wire::PeerKind::proc;
    options.hello.incarnation = incarnation;
    options.hello.token = harness.tokens().make(proc, incarnation);
    Dispatcher handlers;
    handlers.on<wire::StopAndExit>(Role::host, [this](const Request& request, const wire::StopAndExit& stop) {
      stop_grace = stop.grace_ms();
      stop_reason = text_of(stop.reason());
      bus_->answer(request, wire::AckT());
    });
    bus_ = std::make_unique<Bus>(harness.reactor(), harness.context(), std::move(options), std::move(handlers), Bus::Events());
    harness.wait("the proc's session", [this] { return bus_->is_up(); });
  }

  template <typename Body>
  Result<void> ask(Body body) {
    std::optional<Result<void>> done;
    bus_->request(Destination::to_agent(harness_.host()), std::move(body), 20s,
                  [&](const Result<ControlMessage>& answer) { done = answer ? Result<void>() : Result<void>(fail(answer.error())); });
    harness_.wait("an answer", [&] { return done.has_value(); });
    return *done;
  }

  std::optional<std::uint32_t> stop_grace;
  std::string stop_reason;

 private:
  AgentHarness& harness_;
  std::unique_ptr<Bus> bus_;
};

ErrorCode code_of(const auto& result) {
  return result ? ErrorCode::none : result.error().code();
}

wire::GetStateT get_state(const std::string& mesh) {
  wire::GetStateT request;
  request.mesh = mesh;
  return request;
}

TEST_CASE("agent: the same spawn again is nothing new, more ranks are, another spec is refused") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300", 4);
  const auto mesh = request.mesh;
  request.create_ranks = {wire::RankInterval(0, 2)};
  CHECK(harness.ask<wire::SpawnAccepted>(wire::SpawnProcsT(request))->started == 2);
  CHECK(harness.ask<wire::SpawnAccepted>(wire::SpawnProcsT(request))->started == 0);
  request.create_ranks = {wire::RankInterval(1, 4)};
  CHECK(harness.ask<wire::SpawnAccepted>(wire::SpawnProcsT(request))->started == 2);
  harness.wait_state(mesh, State::ready, 4);
  request.command->arguments.back() = "exec sleep 301";
  const auto refused = harness.ask<wire::SpawnAccepted>(wire::SpawnProcsT(request));
  CHECK(code_of(refused) == ErrorCode::refused);
  CHECK(refused.error().detail().find("another command") != std::string::npos);
  CHECK(harness.agent().live() == 4);
  request.command->arguments.back() = "exec sleep 300";
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh, 4);
  // The ended ones answer by name, and are not started again.
  CHECK(harness.ask<wire::SpawnAccepted>(wire::SpawnProcsT(request))->started == 0);
  CHECK(harness.agent().live() == 0);
}

TEST_CASE("agent: bad requests are refused in words and change nothing") {
  AgentHarness harness;
  struct Row {
    ErrorCode code;
    std::function<void(wire::SpawnProcsT&)> spoil;
  };
  for (const auto& [code, spoil] : std::vector<Row>{
           {ErrorCode::parse_error, [](auto& s) { s.mesh = "not a name"; }},
           {ErrorCode::configuration_error, [](auto& s) { s.region->strides.clear(); }},
           {ErrorCode::out_of_range, [](auto& s) { s.create_ranks = {wire::RankInterval(0, 3)}; }},
           {ErrorCode::identity_mismatch, [](auto& s) { s.hosts = {"unix:/somewhere/else"}; }},
           {ErrorCode::configuration_error, [](auto& s) { s.command->program = ""; }},
           {ErrorCode::parse_error, [](auto& s) { s.owner = "nobody"; }},
       }) {
    auto request = harness.shell("exec sleep 300", 2);
    spoil(request);
    CHECK(code_of(harness.ask<wire::SpawnAccepted>(std::move(request))) == code);
  }
  wire::StopProcsT stop;
  stop.mesh = "not a name";
  CHECK(code_of(harness.ask<wire::Ack>(stop)) == ErrorCode::parse_error);
  stop.mesh = "jobs-13Se1Maqzryj";
  stop.ranks = {wire::RankInterval(5, 5)};
  CHECK(code_of(harness.ask<wire::Ack>(stop)) == ErrorCode::out_of_range);
  wire::SignalProcsT signal;
  signal.mesh = "jobs-13Se1Maqzryj";
  signal.signal = SIGTERM;
  CHECK(code_of(harness.ask<wire::Ack>(signal)) == ErrorCode::not_exist);
  for (const std::uint8_t number : std::vector<std::uint8_t>{0, 65, 255}) {
    signal.signal = number;
    CHECK(code_of(harness.ask<wire::Ack>(signal)) == ErrorCode::out_of_range);
  }
  CHECK(code_of(harness.ask<wire::MeshState>(get_state(""))) == ErrorCode::not_exist);
  CHECK(code_of(harness.ask<wire::MeshState>(get_state(std::string(100'000, 'x')))) == ErrorCode::not_exist);
  wire::StreamStateT stream;
  stream.mesh = "jobs-13Se1Maqzryj";
  stream.subscriber = "nobody";
  CHECK(code_of(harness.ask<wire::MeshState>(stream)) == ErrorCode::parse_error);
  wire::RenewLeaseT lease;
  lease.meshes = {"jobs-13Se1Maqzryj", "x"};
  CHECK(code_of(harness.ask<wire::Ack>(lease)) == ErrorCode::not_exist);
  wire::ShutdownHostT shutdown;
  shutdown.in_flight = 257;
  CHECK(code_of(harness.ask<wire::ShutdownSummary>(shutdown)) == ErrorCode::out_of_range);
  CHECK(code_of(harness.ask<wire::Ack>(wire::MeshEventT{})) != ErrorCode::none);  // not for an agent
  wire::StopStreamT stop_stream;
  stop_stream.mesh = "x";
  stop_stream.subscriber = "y";
  CHECK(harness.ask<wire::Ack>(stop_stream).has_value());
  CHECK(harness.agent().live() == 0);
  CHECK(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
}

TEST_CASE("agent: GetHost, ListMeshes and GetState say what is") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("echo oops >&2; exit $RANK", 3);
  const auto sleeper = harness.run_shell("exec sleep 300", 2);
  harness.wait_ended(mesh, 3);
  harness.wait_state(sleeper, State::ready, 2);
  const auto host = harness.ask<wire::HostState>(wire::GetHostT{});
  REQUIRE(host.has_value());
  CHECK(host->host == harness.host().to_string());
  CHECK(host->live == 2);
  CHECK(host->containment == "sweep");
  CHECK(host->pid == static_cast<std::uint32_t>(::getpid()));
  CHECK(host->incarnation == harness.agent().incarnation());
  CHECK_FALSE(host->version.empty());
  CHECK_FALSE(host->node.empty());
  const auto list = harness.ask<wire::MeshList>(wire::ListMeshesT{});
  REQUIRE(list.has_value());
  REQUIRE(list->meshes.size() == 2);
  for (const auto& entry : list->meshes) CHECK(entry->ranks.size() == (entry->mesh == mesh ? 3 : 2));
  const auto state = harness.ask<wire::MeshState>(get_state(mesh));
  REQUIRE(state.has_value());
  CHECK(state->owner == harness.launcher->id().to_string());
  CHECK(state->region->sizes == std::vector<std::uint64_t>{3});
  REQUIRE(state->ranks.size() == 3);
  REQUIRE(state->certificates.size() == 3);
  CHECK(state->ranks[2].exit_code() == 2);
  CHECK(state->certificates[2]->reason == "exit 2");
  CHECK(std::string(state->certificates[2]->stderr_tail.begin(), state->certificates[2]->stderr_tail.end()) == "oops\n");
  harness.stop(sleeper, 0ms);
  harness.wait_ended(sleeper, 2);
}

TEST_CASE("agent: ended meshes are forgotten by number, the newest last") {
  AgentHarness harness({.settings = {{"records.kept", "4"}}});
  const auto first = harness.run_shell("exit 0", 2);
  harness.wait_ended(first, 2);
  const auto second = harness.run_shell("exit 0", 3);
  harness.wait_ended(second, 3);
  const auto third = harness.run_shell("exit 0", 1);
  harness.wait_ended(third);
  harness.wait("the first one to be forgotten",
               [&] { return code_of(harness.ask<wire::MeshState>(get_state(first))) == ErrorCode::not_exist; });
  CHECK(harness.ask<wire::MeshState>(get_state(second)).has_value());
  CHECK(harness.ask<wire::MeshState>(get_state(third)).has_value());
}

TEST_CASE("agent: ended meshes are forgotten by age") {
  AgentHarness harness({.settings = {{"records.age", "300ms"}}});
  const auto mesh = harness.run_shell("exit 0");
  harness.wait_ended(mesh);
  harness.wait("it to be forgotten", [&] { return code_of(harness.ask<wire::MeshState>(get_state(mesh))) == ErrorCode::not_exist; });
}

TEST_CASE("agent: procs find their place in the environment") {
  AgentHarness harness({.environment = {"PATH=/usr/bin:/bin", "FROM=host", "MESHBUS_BOOTSTRAP=1:2:3", "RANK=77"}});
  auto request = harness.shell("env", 2);
  request.output = wire::OutputMode::stream;
  request.master_address = "10.1.2.3";
  request.master_port = 29500;
  request.command->environment.push_back(std::make_unique<wire::KeyValueT>());
  request.command->environment.back()->key = "MINE";
  request.command->environment.back()->value = "a b=c";
  const auto mesh = harness.spawn(std::move(request));
  harness.wait("output", [&] { return harness.rank(mesh, 0).output_ended && harness.rank(mesh, 1).output_ended; });
  const auto& out = harness.rank(mesh, 1).out;
  for (const std::string line : {"FROM=host", "MINE=a b=c", "RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "NODE_RANK=0",
                                 "MASTER_ADDR=10.1.2.3", "MASTER_PORT=29500", "MESHBUS_RANK_RANK=1", "MESHBUS_SIZE_RANK=2"})
    CHECK(("\n" + out).find("\n" + line + "\n") != std::string::npos);
  CHECK(out.find("MESHBUS_MESH=" + mesh + "\n") != std::string::npos);
  CHECK(out.find("MESHBUS_ADDR=" + harness.host().to_string() + ",jobs_1-") != std::string::npos);
  CHECK(out.find("MESHBUS_BOOTSTRAP") == std::string::npos);
  harness.wait_ended(mesh, 2);
}

TEST_CASE("agent: a free port can be bound") {
  AgentHarness harness;
  const auto port = harness.ask<wire::FreePort>(wire::GetFreePortT{});
  REQUIRE(port.has_value());
  CHECK(port->port > 0);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port->port);
  CHECK(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
}

TEST_CASE("agent: subscribers get the state, then every change, until they stop or leave") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300", 2);
  harness.wait_state(mesh, State::ready, 2);
  auto watcher = harness.make_launcher("client");
  auto other = harness.make_launcher("client");
  wire::StreamStateT stream;
  stream.mesh = mesh;
  stream.subscriber = watcher->id().to_string();
  const auto now = harness.ask<wire::MeshState>(*watcher, stream);
  REQUIRE(now.has_value());
  CHECK(now->ranks.size() == 2);
  CHECK(harness.ask<wire::MeshState>(*watcher, stream).has_value());  // a set
  stream.subscriber = other->id().to_string();
  CHECK(harness.ask<wire::MeshState>(*other, stream).has_value());
  harness.stop(mesh, 5s, {wire::RankInterval(0, 1)});
  for (auto* each : {watcher.get(), other.get()}) {
    harness.wait("the change", [&] { return each->mesh(mesh)[0].certificate.has_value(); });
    CHECK(each->mesh(mesh)[0].state() == State::stopped);
    CHECK(each->problems.empty());
  }
  wire::StopStreamT stop;
  stop.mesh = mesh;
  stop.subscriber = watcher->id().to_string();
  CHECK(harness.ask<wire::Ack>(*watcher, stop).has_value());
  const auto before = watcher->state_messages;
  other.reset();  // gone without a word
  harness.run_for(600ms);
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh, 2);
  harness.run_for(100ms);
  CHECK(watcher->state_messages == before);
}

TEST_CASE("agent: the owner is gone, its meshes end within two seconds, others live on") {
  AgentHarness harness;
  auto owner = harness.make_launcher("client");
  auto request = harness.shell("trap '' TERM; echo up; while :; do sleep 1; done", 3);
  request.owner = owner->id().to_string();
  const auto mesh = request.mesh;
  CHECK(harness.ask<wire::SpawnAccepted>(*owner, std::move(request)).has_value());
  const auto mine = harness.run_shell("exec sleep 300");
  harness.wait("ready", [&] { return owner->mesh(mesh).size() == 3 && owner->mesh(mesh)[2].state() == State::ready; });
  harness.wait_state(mine, State::ready);
  owner.reset();
  const auto begin = std::chrono::steady_clock::now();
  harness.wait("the end of the mesh", [&] { return harness.agent().live() == 1; });
  CHECK(std::chrono::steady_clock::now() - begin < 2s);
  const auto state = harness.ask<wire::MeshState>(get_state(mesh));
  REQUIRE(state.has_value());
  for (const auto& rank : state->ranks) {
    CHECK(rank.state() == State::stopped);
    CHECK(rank.step() == wire::StopStep::kill);
  }
  harness.wait("certificates", [&] { return harness.ask<wire::MeshState>(get_state(mesh))->certificates.size() == 3; });
  CHECK(harness.ask<wire::MeshState>(get_state(mesh))->certificates[0]->stop_reason == "launcher gone");
  CHECK(harness.rank(mine).state() == State::ready);
  harness.stop(mine, 0ms);
  harness.wait_ended(mine);
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
  request.lease_ms = 600;
  const auto left = harness.spawn(wire::SpawnProcsT(request));
  request.mesh = Name::make("jobs")->to_string();
  const auto renewed = harness.spawn(wire::SpawnProcsT(request));
  const auto end = std::chrono::steady_clock::now() + 1500ms;
  wire::RenewLeaseT renew;
  renew.meshes = {renewed};
  renew.lease_ms = 600;
  while (std::chrono::steady_clock::now() < end) {
    CHECK(harness.ask<wire::Ack>(renew).has_value());
    harness.run_for(100ms);
  }
  harness.wait_ended(left);
  CHECK(harness.rank(left).state() == State::stopped);
  CHECK(harness.rank(left).certificate->stop_reason == "lease lapsed");
  CHECK(harness.rank(renewed).state() == State::ready);
  harness.wait_ended(renewed);
  CHECK(harness.rank(renewed).certificate->stop_reason == "lease lapsed");
}

TEST_CASE("agent: shutdown ends everything, so many at a time, then answers, to everybody who asks") {
  AgentHarness harness;
  const auto deaf = harness.run_shell("trap '' TERM; while :; do sleep 1; done", 4);
  const auto good = harness.run_shell("exec sleep 300", 4);
  harness.wait_state(deaf, State::ready, 4);
  harness.wait_state(good, State::ready, 4);
  harness.run_for(300ms);
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
      REQUIRE(harness.rank(mesh, rank).certificate.has_value());
      CHECK(harness.rank(mesh, rank).certificate->stop_reason == "evening");
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
    harness.launcher->bus().request(Destination::to_agent(harness.host()), std::move(request), 30s, [](const Result<ControlMessage>&) {});
    const auto summary = harness.ask<wire::ShutdownSummary>(wire::ShutdownHostT{});
    REQUIRE(summary.has_value());
    CHECK(summary->attempted == 50);
    CHECK(summary->ok == 50);
    CHECK(harness.agent().live() == 0);
    harness.wait_ended(mesh, 50);
  }
  harness.wait("the end of the host", [&] { return harness.shut_down.has_value(); });
}

TEST_CASE("agent: the broker is lost and comes back: procs live on, the owner is told everything, and is not taken for gone") {
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
  Session::Options options;
  options.endpoint = harness.endpoint();
  options.hello.version = 1;
  options.hello.peer = ProcId(harness.host(), *Name::make("client")).to_string();
  options.hello.kind = wire::PeerKind::launcher;
  options.hello.incarnation = 5;
  const auto connect = [&] {
    auto bus = std::make_unique<Bus>(harness.reactor(), harness.context(), options, Dispatcher(), Bus::Events());
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
  const auto mesh = harness.run_shell("echo last words >&2; exec sleep 300", 3);
  harness.wait_state(mesh, State::ready, 3);
  harness.run_for(100ms);
  harness.keeper().send_signal(SIGKILL);
  harness.wait("the loss", [&] { return harness.keeper_lost; });
  harness.wait_ended(mesh, 3);
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
    CHECK(rank.state() == State::failed);
    CHECK(rank.certificate->reason.starts_with("keeper lost"));
    CHECK(std::string(rank.certificate->stderr_tail.begin(), rank.certificate->stderr_tail.end()) == "last words\n");
  }
}

TEST_CASE("agent: a mesh proc is Ready when it says so itself, and only itself") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300", 2);
  request.kind = wire::ProcKind::mesh;
  request.ready_limit_ms = 1500;
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_state(mesh, State::running, 2);
  const auto proc = [&](std::uint64_t rank) { return ProcId(harness.host(), proc_name(*Name::parse(mesh), rank)).to_string(); };
  const auto life = [&](std::uint64_t rank) { return harness.rank(mesh, rank).states.back().incarnation(); };
  wire::ProcReadyT ready;
  ready.proc = proc(0);
  ready.incarnation = life(0);
  wire::ProcHeartbeatT beat;
  beat.proc = proc(0);
  {
    FakeProc stranger(harness, ProcId(harness.host(), proc_name(*Name::make("jobs"), 0)).to_string(), 1);
    CHECK(code_of(stranger.ask(wire::ProcReadyT(ready))) == ErrorCode::identity_mismatch);
    CHECK(code_of(stranger.ask(wire::ProcHeartbeatT(beat))) == ErrorCode::identity_mismatch);
    CHECK(code_of(stranger.ask(harness.shell("exit 0"))) == ErrorCode::unauthorised);
    FakeProc one(harness, proc(1), life(1));
    CHECK(code_of(one.ask(wire::ProcReadyT(ready))) == ErrorCode::identity_mismatch);  // speaks for another rank
    FakeProc earlier(harness, proc(0), life(0) + 1);
    CHECK(code_of(earlier.ask(wire::ProcReadyT(ready))) == ErrorCode::identity_mismatch);  // another life
  }
  CHECK(harness.rank(mesh, 0).state() == State::running);
  FakeProc zero(harness, proc(0), life(0));
  CHECK(zero.ask(wire::ProcReadyT(ready)).has_value());
  CHECK(zero.ask(wire::ProcReadyT(ready)).has_value());
  CHECK(zero.ask(wire::ProcHeartbeatT(beat)).has_value());
  harness.wait("ready", [&] { return harness.rank(mesh, 0).state() == State::ready; });
  // Rank 1 says nothing.
  harness.wait("the limit", [&] { return harness.rank(mesh, 1).certificate.has_value(); });
  CHECK(harness.rank(mesh, 1).state() == State::failed);
  CHECK(harness.rank(mesh, 1).certificate->code == wire::ErrorCode::timeout);
  CHECK(harness.rank(mesh, 1).certificate->reason == "not ready within 1500 ms; stage: exec'd, no hello from it yet");
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
  const auto begin = std::chrono::steady_clock::now();
  harness.stop(mesh, 60s);
  harness.wait_ended(mesh);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK(harness.rank(mesh).states.back().step() == wire::StopStep::term);
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
    CHECK(rank.certificate->reason == "exit 0");
  }
}

TEST_CASE("agent: queries are answered while many procs start") {
  AgentHarness harness;
  auto request = harness.command({"/bin/true"}, 500);
  const auto mesh = harness.spawn(std::move(request));
  int answered = 0;
  while (harness.agent().live() > 0) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
    CHECK(std::chrono::steady_clock::now() - begin < 2s);
    ++answered;
  }
  CHECK(answered > 5);
  harness.wait_ended(mesh, 500);
}

}  // namespace
}  // namespace meshbus::test

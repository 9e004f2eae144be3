// What is asked of a host agent besides starting and stopping, and how it refuses.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "tests/integration/agent/harness.h"
#include "tests/integration/needs.h"
#include "tests/support/environment.h"
#include "tests/support/sanitizer_scale.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;

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
  CHECK(code_of(harness.ask<wire::MeshState>(get_state(std::string(100'000, 'x')))) ==
        ErrorCode::not_exist);
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
  CHECK(code_of(harness.ask<wire::Ack>(wire::MeshEventT{})) !=
        ErrorCode::none);  // not for an agent
  wire::StopStreamT stop_stream;
  stop_stream.mesh = "x";
  stop_stream.subscriber = "y";
  CHECK(code_of(harness.ask<wire::Ack>(stop_stream)) == ErrorCode::parse_error);
  stop_stream.subscriber = harness.launcher->id().to_string();
  CHECK(harness.ask<wire::Ack>(stop_stream).has_value());
  CHECK(harness.agent().live() == 0);
  CHECK(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
}

TEST_CASE("agent: more procs than it could hold the pipes of are refused, not half started") {
  struct FewFiles {
    FewFiles() {
      ::getrlimit(RLIMIT_NOFILE, &before);
      const rlimit few{2000, before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &few);
    }
    ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before); }
    rlimit before{};
  } few_files;
  AgentHarness harness;
  const auto refused = harness.ask<wire::SpawnAccepted>(harness.shell("exec sleep 300", 400));
  CHECK(code_of(refused) == ErrorCode::too_large);
  CHECK(refused.error().detail().find("ulimit -n") != std::string::npos);
  CHECK(harness.agent().live() == 0);
  const auto mesh = harness.run_shell("exit 0", 300);
  harness.wait_ended(mesh, 300);
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
  for (const auto& entry : list->meshes)
    CHECK(entry->ranks.size() == (entry->mesh == mesh ? 3 : 2));
  const auto state = harness.ask<wire::MeshState>(get_state(mesh));
  REQUIRE(state.has_value());
  CHECK(state->owner == harness.launcher->id().to_string());
  CHECK(state->region->sizes == std::vector<std::uint64_t>{3});
  REQUIRE(state->ranks.size() == 3);
  REQUIRE(state->exit_reports.size() == 3);
  CHECK(state->ranks[2].exit_code() == 2);
  CHECK(state->exit_reports[2]->reason == "exit 2");
  CHECK(std::string(state->exit_reports[2]->stderr_tail.begin(),
                    state->exit_reports[2]->stderr_tail.end()) == "oops\n");
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
  harness.wait("the first one to be forgotten", [&] {
    return code_of(harness.ask<wire::MeshState>(get_state(first))) == ErrorCode::not_exist;
  });
  CHECK(harness.ask<wire::MeshState>(get_state(second)).has_value());
  CHECK(harness.ask<wire::MeshState>(get_state(third)).has_value());
}

TEST_CASE("agent: ended meshes are forgotten by age") {
  AgentHarness harness({.settings = {{"records.age", "300ms"}}});
  const auto mesh = harness.run_shell("exit 0");
  harness.wait_ended(mesh);
  harness.wait("it to be forgotten", [&] {
    return code_of(harness.ask<wire::MeshState>(get_state(mesh))) == ErrorCode::not_exist;
  });
}

TEST_CASE("agent: procs find their place in the environment") {
  AgentHarness harness(
      {.environment = {"PATH=/usr/bin:/bin", "FROM=host", "MESHBUS_BOOTSTRAP=1:2:3", "RANK=77"}});
  auto request = harness.shell("env", 2);
  request.output = wire::OutputMode::stream;
  request.master_address = "10.1.2.3";
  request.master_port = 29500;
  request.command->environment.push_back(std::make_unique<wire::KeyValueT>());
  request.command->environment.back()->key = "MINE";
  request.command->environment.back()->value = "a b=c";
  const auto mesh = harness.spawn(std::move(request));
  harness.wait("output", [&] {
    return harness.rank(mesh, 0).output_ended && harness.rank(mesh, 1).output_ended;
  });
  const auto& out = harness.rank(mesh, 1).out;
  for (const std::string line :
       {"FROM=host", "MINE=a b=c", "RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2",
        "NODE_RANK=0", "MASTER_ADDR=10.1.2.3", "MASTER_PORT=29500", "MESHBUS_RANK_RANK=1",
        "MESHBUS_SIZE_RANK=2"})
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
  CHECK(code_of(harness.ask<wire::MeshState>(*watcher, stream)) ==
        ErrorCode::identity_mismatch);  // on behalf of another
  CHECK(harness.ask<wire::MeshState>(*other, stream).has_value());
  wire::StopStreamT not_its_own;
  not_its_own.mesh = mesh;
  not_its_own.subscriber = watcher->id().to_string();
  CHECK(code_of(harness.ask<wire::Ack>(*other, not_its_own)) == ErrorCode::identity_mismatch);
  harness.stop(mesh, 5s, {wire::RankInterval(0, 1)});
  for (auto* each : {watcher.get(), other.get()}) {
    harness.wait("the change", [&] { return each->mesh(mesh)[0].exit_report.has_value(); });
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

TEST_CASE("agent: queries are answered while many procs start") {
  AgentHarness harness;
  auto request = harness.command({"/bin/true"}, 500);
  const auto mesh = harness.spawn(std::move(request));
  int answered = 0;
  while (harness.agent().live() > 0) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
    CHECK(std::chrono::steady_clock::now() - begin < 2s * slowness);
    ++answered;
  }
  CHECK(answered > 5);
  harness.wait_ended(mesh, 500);
}

TEST_CASE("agent: a mesh that is stopped while its host looks where to bind it is not started" *
          doctest::test_suite(need::hwloc)) {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300");
  request.binding = std::make_unique<wire::BindingT>();
  request.binding->to = wire::BindTo::core;
  wire::StopProcsT stop;
  stop.mesh = request.mesh;
  wire::GetStateT get;
  get.mesh = request.mesh;
  std::optional<Result<ControlMessage>> answer;
  harness.launcher->bus().request(
      Destination::to_agent(harness.host()), std::move(request), std::chrono::seconds(30),
      [&answer](Result<ControlMessage> got) { answer = std::move(got); });
  CHECK(harness.ask<wire::Ack>(std::move(stop)).has_value());
  harness.wait("the answer to the spawn", [&] { return answer.has_value(); });
  REQUIRE_FALSE(answer->has_value());
  CHECK(answer->error().code() == ErrorCode::refused);
  CHECK(answer->error().detail().find("stopped before its ranks were started") !=
        std::string::npos);
  CHECK(code_of(harness.ask<wire::MeshState>(std::move(get))) == ErrorCode::not_exist);
}

TEST_CASE("agent: ranks that are stopped while their host looks where to bind them end alone" *
          doctest::test_suite(need::hwloc)) {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300", 2);
  request.binding = std::make_unique<wire::BindingT>();
  request.binding->to = wire::BindTo::core;
  const std::string mesh = request.mesh;
  std::optional<Result<ControlMessage>> answer;
  harness.launcher->bus().request(
      Destination::to_agent(harness.host()), std::move(request), std::chrono::seconds(30),
      [&answer](Result<ControlMessage> got) { answer = std::move(got); });
  harness.stop(mesh, std::chrono::milliseconds(0), {wire::RankInterval(1, 2)});
  harness.wait("the answer to the spawn", [&] { return answer.has_value(); });
  INFO((answer->has_value() ? std::string() : answer->error().to_string()));
  REQUIRE(answer->has_value());
  harness.wait("one rank to run and one to end", [&] {
    return harness.rank(mesh, 0).state() >= wire::ProcState::running &&
           harness.rank(mesh, 1).exit_report.has_value();
  });
  CHECK_FALSE(harness.rank(mesh, 0).has_ended());
  CHECK(harness.rank(mesh, 1).has_ended());
  harness.stop(mesh, std::chrono::milliseconds(0));
  harness.wait_ended(mesh, 2);
}

}  // namespace
}  // namespace meshbus::test

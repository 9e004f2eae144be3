// meshbus-agent as its warden sees it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>

#include "agent/os/packet.h"
#include "common/base/release.h"
#include "common/wire/wire_region.h"
#include "tests/integration/agent/harness.h"
#include "tests/support/environment.h"
#include "tests/support/process_table.h"
#include "tests/support/wait.h"
#include "tests/world/broker.h"
#include "tests/world/keeper_process.h"
#include "tests/world/loop.h"
#include "wire/lifecycle_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

/// A broker in this thread, a keeper and an agent as processes; we are the warden.
struct Host {
  explicit Host(std::vector<std::string> more = {}, bool is_served = true) {
    broker = start_broker(loop, "unix:" + (dir / "b"));
    const UniqueFd keeper_socket = std::move(keeper.agent);
    auto line = os::make_packet_pair().value();
    const UniqueFd secret(::memfd_create(
        "secret", 0));  // NOLINT(android-cloexec-memfd-create): the agent inherits it
    const std::string bytes(TokenMaker::kSecretSize, 's');
    if (::write(secret.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("no secret");
    ::lseek(secret.get(), 0, SEEK_SET);
    std::vector<std::string> argv{bin("meshbus-agent"),
                                  "--lifeline-fd",
                                  std::to_string(line.second.get()),
                                  "--secret-fd",
                                  std::to_string(secret.get()),
                                  "--keeper-fd",
                                  std::to_string(keeper_socket.get()),
                                  "--broker",
                                  broker->binds().front().to_string(),
                                  "--containment",
                                  "sweep"};
    if (is_served) more.insert(more.end(), {"--host", broker->address().to_string()});
    argv.insert(argv.end(), more.begin(), more.end());
    agent = std::make_unique<Process>(
        argv, ProcessOptions{.inherit = {line.second.get(), secret.get(), keeper_socket.get()}});
    lifeline = os::Lifeline(std::move(line.first));
  }

  /// The next word of the agent but its release, or why there is none.
  std::string hear() {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < end) {
      loop.reactor.turn(5ms);
      const auto received = lifeline.receive();
      if (received.text && received.text->starts_with("release ")) {
        release = received.text->substr(8);
        continue;
      }
      if (received.text) return *received.text;
      if (received.ended) return "(end)";
    }
    return "(silence)";
  }
  ExitStatus wait_exit() {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (agent->is_running() && std::chrono::steady_clock::now() < end) loop.reactor.turn(5ms);
    return agent->wait_exit(1s);
  }
  /// Spawns `sh -c SCRIPT` and waits until it says "up".
  std::unique_ptr<TestLauncher> spawn(const std::string& script) {
    auto launcher = std::make_unique<TestLauncher>(
        loop, broker->binds().front().zmq_endpoint(),
        ProcId(broker->address(), *Name::make("client")).to_string());
    wire::SpawnProcsT request;
    request.mesh = mesh = Name::make("jobs")->to_string();
    request.region = to_wire(*Extent::make({{"rank", 1}}));
    request.hosts = {broker->address().to_string()};
    request.create_ranks = {wire::RankInterval(0, 1)};
    request.command = std::make_unique<wire::CommandT>();
    request.command->program = "/bin/sh";
    request.command->arguments = {"sh", "-c", script};
    request.owner = launcher->bus().self()->to_string();
    request.output = wire::OutputMode::stream;
    launcher->bus().request(Destination::to_agent(broker->address()), std::move(request), 30s,
                            [](const Result<ControlMessage>&) {});
    turn_until([&] { return launcher->mesh(mesh)[0].out == "up\n"; });
    return launcher;
  }
  void turn_until(const std::function<bool()>& predicate) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!predicate()) {
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error("waited too long; " + agent->describe());
      loop.reactor.turn(5ms);
    }
  }

  TempDir dir;
  Loop loop;
  KeeperProcess keeper;
  std::unique_ptr<Broker> broker;
  os::Lifeline lifeline;
  std::unique_ptr<Process> agent;
  std::string mesh;
  std::string release;  ///< As the agent has said.
};

TEST_CASE(
    "meshbus-agent: ready when registered; stop ends its procs and itself; terminal signals do "
    "nothing") {
  Host host;
  CHECK(host.hear() == "ready");
  CHECK(host.release == this_release());
  auto launcher = host.spawn("trap '' TERM; echo up; while :; do sleep 1; done");
  for (const int signal : {SIGINT, SIGHUP, SIGTSTP, SIGQUIT}) host.agent->send_signal(signal);
  host.lifeline.send("nonsense");
  host.lifeline.send("stop 200");
  host.turn_until([&] { return launcher->mesh(host.mesh)[0].exit_report.has_value(); });
  CHECK(launcher->mesh(host.mesh)[0].states.back().step() == wire::StopStep::kill);
  CHECK(host.wait_exit() == ExitStatus::exited(0));
}

TEST_CASE("meshbus-agent: started before its broker serves, it waits for the address") {
  {
    Host host({}, false);
    host.lifeline.send("ping");
    CHECK(host.hear() == "pong");  // and not "ready"
    host.lifeline.send("nonsense");
    host.lifeline.send("broker " + host.broker->address().to_string());
    CHECK(host.hear() == "ready");
    host.spawn("echo up; exec sleep 300");
    host.lifeline.send("stop 200");
    CHECK(host.wait_exit() == ExitStatus::exited(0));
  }
  {
    Host host({}, false);
    host.lifeline.send("stop 0");  // the broker could not start
    CHECK(host.wait_exit() == ExitStatus::exited(0));
  }
  {
    Host host({}, false);
    host.lifeline.close();  // the warden has died
    CHECK(host.wait_exit() == ExitStatus::exited(0));
  }
  Host host({}, false);
  host.lifeline.send("broker nowhere");
  CHECK(host.wait_exit() == ExitStatus::exited(2));
  CHECK(host.agent->err().find("the broker's address: ") != std::string::npos);
}

TEST_CASE("meshbus-agent: SIGTERM is a stop with the usual grace") {
  Host host({"--set", "terminate.grace=300ms"});
  CHECK(host.hear() == "ready");
  auto launcher = host.spawn("trap '' TERM; echo up; while :; do sleep 1; done");
  host.agent->send_signal(SIGTERM);
  host.turn_until([&] { return launcher->mesh(host.mesh)[0].exit_report.has_value(); });
  CHECK(host.wait_exit() == ExitStatus::exited(0));
}

TEST_CASE("meshbus-agent: ShutdownHost is answered, then told to the warden, who ends it") {
  Host host;
  CHECK(host.hear() == "ready");
  auto launcher = host.spawn("echo up; exec sleep 300");
  std::optional<std::uint64_t> ok;
  wire::ShutdownHostT shutdown;
  shutdown.grace_ms = 5000;
  launcher->bus().request(Destination::to_agent(host.broker->address()), std::move(shutdown), 30s,
                          [&](const Result<ControlMessage>& answer) {
                            if (answer) ok = answer->body_as<wire::ShutdownSummary>()->ok();
                          });
  CHECK(host.hear() == "shutdown 0");
  host.turn_until([&] { return ok.has_value(); });
  CHECK(*ok == 1);
  host.lifeline.send("stop");
  CHECK(host.wait_exit() == ExitStatus::exited(0));
}

TEST_CASE("meshbus-agent: without its warden it ends at once, and says nothing to anybody") {
  Host host;
  CHECK(host.hear() == "ready");
  host.lifeline.close();
  CHECK(host.wait_exit() == ExitStatus::exited(0));
}

TEST_CASE("meshbus-agent: without its keeper it reports and ends with 70") {
  Host host;
  CHECK(host.hear() == "ready");
  auto launcher = host.spawn("echo up; exec sleep 300");
  host.keeper.process.send_signal(SIGKILL);
  host.turn_until([&] { return launcher->mesh(host.mesh)[0].exit_report.has_value(); });
  CHECK(launcher->mesh(host.mesh)[0].state() == wire::ProcState::failed);
  CHECK(host.hear() == "failed keeper lost");
  CHECK(host.wait_exit() == ExitStatus::exited(70));
}

TEST_CASE("meshbus-agent: how its keeper has ended is what its warden says, or dies of") {
  const auto reason_after = [](const std::function<void(Host&)>& act) {
    Host host;
    CHECK(host.hear() == "ready");
    auto launcher = host.spawn("echo up; exec sleep 300");
    host.keeper.process.send_signal(SIGKILL);
    host.keeper.process.wait_exit(30s);
    act(host);
    host.turn_until([&] { return launcher->mesh(host.mesh)[0].exit_report.has_value(); });
    host.wait_exit();
    return launcher->mesh(host.mesh)[0].exit_report->reason;
  };
  const auto told = reason_after([](Host& host) {
    host.lifeline.send("ping");
    host.lifeline.send("keeper was killed by SIGKILL");
  });
  CHECK(told.ends_with("has died: it was killed by SIGKILL"));
  // It closes its descriptors one by one when it dies, that to the keeper before that to the agent.
  CHECK(reason_after([](Host& host) { host.lifeline.close(); }).starts_with("host lost: "));
  const auto untold = reason_after([](Host& host) { host.lifeline.send("stop 0"); });
  CHECK(untold.ends_with("has died"));
}

TEST_CASE("meshbus-agent: what it cannot start with is said in one line") {
  struct Row {
    std::vector<std::string> arguments;
    int code;
    std::string text;
  };
  const std::vector<std::string> fds{"--lifeline-fd", "0", "--secret-fd", "0", "--keeper-fd", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fds.begin(), fds.end());
    return more;
  };
  for (const auto& [arguments, code, text] : std::vector<Row>{
           {{}, 2, "required"},
           {with({"--host", "nowhere", "--broker", "unix:/x"}), 2, "--host"},
           {with({"--host", "unix:/x", "--broker", "nowhere"}), 2, "--broker"},
           {with({"--host", "unix:/x", "--broker", "unix:/x", "--set", "no.such.key=1"}), 2,
            "no.such.key"},
           {with({"--host", "unix:/x", "--broker", "unix:/x", "--set", "tail.lines=many"}), 2,
            "tail.lines"},
           {with({"--host", "unix:/x", "--broker", "unix:/x"}), 66, "--secret-fd"},
       }) {
    std::vector<std::string> argv{bin("meshbus-agent")};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const auto finished = run(argv, 20s);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(code));
    CHECK(finished.err.find(text) != std::string::npos);
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
  }
}

}  // namespace
}  // namespace meshbus::test

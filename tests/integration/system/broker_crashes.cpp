// A broker that crashes ends no job, however often it does: procs live without one, and the warden
// restarts it without end.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// The broker of that host that is not `before`. `speaker`: the process that shows what the warden
/// says.
pid_t wait_for_broker(pid_t warden, pid_t before, Process& speaker) {
  std::optional<Roles> roles;
  const bool is_there = wait_until(
      [&] {
        roles = find_roles(warden);
        return roles && roles->broker != before;
      },
      in_time);
  CAPTURE(speaker.is_running());
  INFO(speaker.describe());
  REQUIRE(is_there);
  return roles->broker;
}

}  // namespace

TEST_CASE("chaos: a broker that is killed ten times within a minute ends no job") {
  StandingHost host;
  const TempDir dir;
  const std::string go = dir / "go";
  Process launcher(cli({"run", "--hosts", host.address(), "--", "sh", "-c",
                        "echo up; until [ -e " + go + " ]; do sleep 0.05; done; echo done"}));
  launcher.wait_for_output("up\n", in_time);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t warden = host.roles().warden;
  pid_t broker = host.roles().broker;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(::kill(broker, SIGKILL) == 0);
    broker = wait_for_broker(warden, broker, host.process());
  }
  MESSAGE("ten brokers within " << std::chrono::duration_cast<std::chrono::milliseconds>(
                                       std::chrono::steady_clock::now() - begin)
                                       .count()
                                << " ms");
  CHECK(host.process().is_running());
  CHECK(host.process().err().find("the broker was killed by SIGKILL: restarting it") !=
        std::string::npos);
  CHECK(host.process().err().find("ending the host") == std::string::npos);
  std::ofstream(go) << "go\n";
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(launcher.out().find("done\n") != std::string::npos);
  // It is said where people look. The last broker may have been killed before the agent knew it.
  const auto ps = run_cli({"ps", "--hosts", host.address(), "--json"});
  INFO(ps.err);
  const auto told = parse_json(ps.out).at("hosts").front().at("broker");
  CHECK(told.at("restarts").get<int>() >= 1);
  CHECK(told.at("restarts").get<int>() <= 10);
  CHECK(told.at("restarted").get<std::string>().starts_with("20"));
  for (const char* verb : {"ps", "status"}) {
    const auto shown = run_cli({verb, "--hosts", host.address()});
    CHECK((shown.out + shown.err).find(" was restarted ") != std::string::npos);
  }
  CHECK(host.process().err().find("had to be restarted") != std::string::npos);
  // The host works as before.
  CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status == ExitStatus::exited(0));
}

TEST_CASE("chaos: a job on hosts that `run` started outlives their brokers, too") {
  const TempDir dir;
  const std::string go = dir / "go";
  Process launcher(cli({"run", "-n", "2", "--", "sh", "-c",
                        "echo up; until [ -e " + go + " ]; do sleep 0.05; done; echo done"}));
  launcher.wait_for_output("up\n", in_time);
  const auto wardens = wardens_of(launcher.pid());
  REQUIRE(wardens.size() == 1);
  auto roles = find_roles(wardens.front());
  REQUIRE(roles.has_value());
  pid_t broker = roles->broker;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(::kill(broker, SIGKILL) == 0);
    broker = wait_for_broker(wardens.front(), broker, launcher);
  }
  CHECK(wait_until([] { return run_cli({"ps"}).out.find(" was restarted ") != std::string::npos; },
                   in_time));
  std::ofstream(go) << "go\n";
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("chaos: who comes while the broker is away waits, and is served by the next one") {
  for (const Words& options : {Words{}, Words{"--insecure", "--bind", "tcp:127.0.0.1:0"}}) {
    StandingHost host(options);
    CAPTURE(host.address());
    const pid_t warden = host.roles().warden;
    pid_t broker = host.roles().broker;
    // The second restart comes later than the first one, the third one later still.
    for (int i = 0; i < 5; ++i) {
      REQUIRE(::kill(broker, SIGKILL) == 0);
      broker = wait_for_broker(warden, broker, host.process());
    }
    REQUIRE(::kill(broker, SIGKILL) == 0);
    REQUIRE(wait_until([&] { return !find_roles(warden); }, in_time));
    Process ps(cli({"ps", "--hosts", host.address(), "--timeout", "10s"}));
    Process job(cli({"run", "--hosts", host.address(), "--", "true"}));
    CHECK(ps.wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(job.wait_exit(in_time) == ExitStatus::exited(0));
    INFO(ps.describe(), job.describe());
    CHECK(wait_for_broker(warden, broker, host.process()) > 0);
  }
}

TEST_CASE("chaos: the user of a host can neither dump nor read its roles") {
  if (::geteuid() != 0) {
    MESSAGE("not root: files in /proc of a host of ours would not tell the difference");
    return;
  }
  const TempDir dir;
  REQUIRE(::chown(dir.path().c_str(), 65534, 65534) == 0);
  Process host(
      {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", bin("meshbus"), "host"},
      {.environment = {{"XDG_RUNTIME_DIR", dir.path()}}});
  host.wait_for_output("\"keeper_pid\":", in_time);
  const auto roles = find_roles(host.pid());
  REQUIRE(roles.has_value());
  for (const pid_t role : roles->all()) {
    CAPTURE(roles->to_string());
    CAPTURE(role);
    struct stat status{};
    REQUIRE(::stat(("/proc/" + std::to_string(role) + "/environ").c_str(), &status) == 0);
    CHECK(status.st_uid == 0);
  }
  host.send_signal(SIGTERM);
  CHECK(host.wait_exit(in_time) == ExitStatus::exited(0));
}

// A broker that crashes ends no job, however often it does: procs live without one, and the warden
// restarts it without end.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/cli/harness.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

/// The broker of that host that is not `before`.
pid_t wait_for_broker(pid_t warden, pid_t before) {
  std::optional<Roles> roles;
  REQUIRE(wait_until(
      [&] {
        roles = find_roles(warden);
        return roles && roles->broker != before;
      },
      in_time));
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
    broker = wait_for_broker(warden, broker);
  }
  MESSAGE("ten brokers within "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
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
  // The host works as before.
  CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status == ExitStatus::exited(0));
}

TEST_CASE("chaos: no role can be dumped or read by its own user, and procs can") {
  StandingHost host;
  const std::string sleep = own_sleep();
  Process launcher(
      cli({"run", "--hosts", host.address(), "--", "sh", "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  // The files below /proc/PID of a process that cannot be dumped belong to root, so a host of
  // another user shows it. A host of root shows it by nothing in /proc but its core limit: there the
  // kernel is asked by the roles' own tests.
  for (const pid_t role : host.roles().all()) {
    struct stat status{};
    REQUIRE(::stat(("/proc/" + std::to_string(role) + "/environ").c_str(), &status) == 0);
    CHECK(status.st_uid == 0);
  }
  struct stat status{};
  const auto proc = sleepers(sleep).front().pid;
  REQUIRE(::stat(("/proc/" + std::to_string(proc) + "/environ").c_str(), &status) == 0);
  CHECK(status.st_uid == ::geteuid());
  launcher.send_signal(SIGTERM);
  launcher.wait_exit(in_time);
}

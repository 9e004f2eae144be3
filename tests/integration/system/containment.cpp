// Spec 4.7, containment without deaths of roles: the numbers of a pid namespace, the limit of
// processes, frozen roles.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "agent/os/cgroup.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// The agent of a host that is not the one before.
bool has_another_agent(pid_t warden, pid_t before) {
  const auto now = find_roles(warden);
  return now && now->agent != before;
}

}  // namespace

TEST_CASE(
    "containment: in a pid namespace, people see the pids of this machine, and procs those of "
    "their own world" *
    doctest::test_suite(need::pid_namespace)) {
  StandingHost host({"--containment", "pidns"});
  CHECK(host.ready().at("containment") == "pid namespace");
  const TempDir dir;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", host.address(), "-n", "4", "--json", dir / "report", "--",
                        "sh", "-c", "echo up $$ $(cut -d' ' -f1 /proc/self/stat); exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 4; }, in_time));
  const auto pids_of = [&] {
    std::vector<pid_t> pids;
    const json listing = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out);
    for (const json& rank : listing.at("meshes").at(0).at("ranks")) pids.push_back(rank.at("pid"));
    std::sort(pids.begin(), pids.end());
    return pids;
  };
  std::vector<pid_t> sleeping;
  for (const auto& one : sleepers(sleep)) sleeping.push_back(one.pid);
  std::sort(sleeping.begin(), sleeping.end());
  CHECK(pids_of() == sleeping);
  // The keeper is process 1 there, so the procs have small numbers, and their /proc says the same.
  for (const std::string& line : lines_of(launcher.out())) {
    CAPTURE(line);
    CHECK(std::stoi(line.substr(line.find("up ") + 3)) < 100);
  }
  // Also what a new agent tells.
  const auto before = host.roles();
  ::kill(before.agent, SIGKILL);
  REQUIRE(wait_until([&] { return has_another_agent(before.warden, before.agent); }, in_time));
  CHECK(pids_of() == sleeping);
  ::kill(sleeping.at(2), SIGUSR1);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(128 + SIGUSR1));
  CHECK(sleepers(sleep).empty());
}

TEST_CASE("containment: what cannot be had is an error with the reason" *
          doctest::test_suite(need::root)) {
  // Without the capability. setpriv is in every Debian.
  const auto finished = run({"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--",
                             bin("meshbus"), "host", "--containment", "pidns"},
                            in_time);
  CHECK(finished.status == ExitStatus::exited(69));
  CHECK(finished.err.find("no pid namespace can be made here: Operation not permitted") !=
        std::string::npos);
  CHECK(host_directories().empty());
  const auto none = run_cli({"run", "--containment", "moon", "--", "true"});
  CHECK(none.status == ExitStatus::exited(2));
}

TEST_CASE("containment: the limit of processes holds for all procs of a host together") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    {
      StandingHost probe({"--containment", containment});
      if (probe.ready().at("pids_limit") == 0) {
        MESSAGE("no limit of processes here: " << probe.ready().at("pids_limit_reason"));
        CHECK(run_cli({"run", "--containment", containment, "--set", "pids.limit=30", "--", "true"})
                  .status == ExitStatus::exited(125));
        continue;
      }
      CHECK(probe.ready().at("pids_limit") == 16384);
    }
    const std::string sleep = own_sleep();
    Process launcher(
        cli({"run", "-n", "2", "--containment", containment, "--set", "pids.limit=30",
             "--keep-going", "--", "sh", "-c",
             "for i in $(seq 100); do " + sleep + " & done 2>/dev/null; echo all; wait"}));
    // dash ends at the first fork that fails; what it had started lives until its rank is gone.
    CHECK(wait_until(
        [&] { return launcher.err().find("ork") != std::string::npos || !launcher.is_running(); },
        in_time));
    CHECK(sleepers(sleep).size() < 30);
    CHECK(launcher.out().find("all") == std::string::npos);
    launcher.wait_exit(in_time);
    CHECK(sleepers(sleep).empty());
  }
  CHECK(host_directories().empty());
}

TEST_CASE(
    "containment: a role that is frozen is looked at, ended, and replaced or the host with it") {
  const std::string sleep = own_sleep();
  for (const std::string role : {"agent", "broker", "keeper"}) {
    CAPTURE(role);
    StandingHost host({"--set", "frozen.limit=1500ms"});
    Process launcher(cli({"run", "--hosts", host.address(), "--set", "delivery.limit=2s", "--",
                          "sh", "-c", "exec " + sleep}));
    REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
    const auto before = host.roles();
    ::kill(role == "agent"    ? before.agent
           : role == "broker" ? before.broker
                              : before.keeper,
           SIGSTOP);
    if (role == "keeper") {
      CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(70));
      CHECK(sleepers(sleep).empty());
    } else {
      CHECK(wait_until(
          [&] {
            return host.process().err().find("the " + role +
                                             " was killed by SIGKILL: restarting it") !=
                   std::string::npos;
          },
          in_time));
      REQUIRE(wait_until([&] { return find_roles(before.warden).has_value(); }, in_time));
      CHECK(sleepers(sleep).size() == 1);
      launcher.send_signal(SIGINT);
    }
    CHECK(host.process().err().find("it is frozen (stopped); killing it") != std::string::npos);
    launcher.wait_exit(in_time);
    CHECK(sleepers(sleep).empty());
  }
}

TEST_CASE("containment: a role that is there and says nothing is frozen, too" *
          doctest::test_suite(need::own_cgroup)) {
  const auto own = meshbus::os::find_own_cgroup();
  REQUIRE(own);
  const std::string frozen = own->path + "/mbtest-" + std::to_string(::getpid());
  REQUIRE(::mkdir(frozen.c_str(), 0755) == 0);
  {
    StandingHost host({"--set", "frozen.limit=1500ms"});
    const auto before = host.roles();
    REQUIRE(meshbus::os::write_file(frozen + "/cgroup.freeze", "1") == 0);
    REQUIRE(meshbus::os::write_file(frozen + "/cgroup.procs", std::to_string(before.broker)) == 0);
    CHECK(wait_until(
        [&] {
          return host.process().err().find("it is frozen (stuck); killing it") != std::string::npos;
        },
        in_time));
    CHECK(wait_until([&] { return find_roles(before.warden).has_value(); }, in_time));
    CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status ==
          ExitStatus::exited(0));
  }
  CHECK(wait_until([&] { return ::rmdir(frozen.c_str()) == 0; }, in_time));
}

TEST_CASE("containment: a warden that was stopped itself kills nobody for their silence") {
  StandingHost host({"--set", "frozen.limit=900ms"});
  const auto before = host.roles();
  ::kill(before.warden, SIGSTOP);
  std::this_thread::sleep_for(2500ms);  // sleep-ok: how long it is away
  ::kill(before.warden, SIGCONT);
  // What it notices afterwards is noticed by the looks that follow the first.
  ::kill(before.broker, SIGSTOP);
  REQUIRE(wait_until(
      [&] {
        return host.process().err().find("the broker was killed by SIGKILL: restarting it") !=
               std::string::npos;
      },
      in_time));
  REQUIRE(wait_until([&] { return find_roles(before.warden).has_value(); }, in_time));
  CHECK(host.roles().keeper == before.keeper);
  CHECK(host.roles().agent == before.agent);
  CHECK(host.process().err().find("frozen") == host.process().err().rfind("frozen"));
}

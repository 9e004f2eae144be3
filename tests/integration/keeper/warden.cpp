#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_placement.h"
#include "agent/os/daemon_protection.h"
#include "tests/integration/keeper/harness.h"
#include "tests/support/environment.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

using namespace meshbus::test;
using namespace std::chrono_literals;
using meshbus::UniqueFd;

namespace {

namespace fs = std::filesystem;

// What spec 4.7 promises for the death of any one role.
constexpr auto promise = 2000ms;

/// A host of stand-ins (keeper_stand_ins.cpp) with the real warden and keeper, and eight procs with
/// a zoo each.
class Host {
 public:
  struct Options {
    std::string containment = "auto";
    std::vector<std::string> settings = {};
    std::chrono::milliseconds grace = 300ms;
    bool deaf = false;  // procs do not hear SIGTERM
    bool lifeline = false;
    bool ready_fd = false;
    std::string run_dir = {};
  };

  explicit Host(Options options) {
    for (const char* name : {"meshbus-broker", "meshbus-agent", "test-warden"})
      stand_in(programs_, name);
    fs::create_symlink(bin("meshbus-keeper"), programs_.path() / "meshbus-keeper");
    run_dir_ = options.run_dir.empty() ? programs_ / "run" : options.run_dir;
    ProcessOptions process{
        .environment = {{"MBTEST_MARKER", marker},
                        {"MBTEST_RUN_DIR", run_dir_},
                        {"MESHBUS_CONTAINMENT", options.containment},
                        {"MBTEST_GRACE_MS", std::to_string(options.grace.count())}}};
    if (options.deaf) process.environment.emplace_back("MBTEST_DEAF", "yes");
    UniqueFd lifeline_end;
    UniqueFd ready_end;
    const auto add_pair = [&](const char* name, UniqueFd& ours, UniqueFd& theirs) {
      int ends[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
      ours.reset(ends[0]);
      theirs.reset(ends[1]);
      process.environment.emplace_back(name, std::to_string(ends[1]));
      process.inherit.push_back(ends[1]);
    };
    if (options.lifeline) add_pair("MBTEST_LIFELINE_FD", lifeline, lifeline_end);
    if (options.ready_fd) add_pair("MBTEST_READY_FD", ready, ready_end);
    std::vector<std::string> argv{programs_ / "test-warden"};
    argv.insert(argv.end(), options.settings.begin(), options.settings.end());
    warden = std::make_unique<Process>(argv, process);
  }

  // Up, with all the zoos in place.
  void wait_ready() {
    warden->wait_for_output("\"keeper_pid\":", long_enough);
    REQUIRE(wait_until([&] { return processes_with(marker).size() >= 8 * zoo_size; }, long_enough));
    keeper = number("keeper_pid");
    broker = number("broker_pid");
    agent = number("agent_pid");
    host_dir = text("run_dir");
    auto view = meshbus::os::view_cgroups();
    if (view) view->self = warden->pid();  // to the warden we are a stranger
    const auto base = view ? meshbus::os::plan_cgroup_placement(*view).base : std::string();
    if (!base.empty())
      cgroup = base + "/meshbus-" + fs::path(host_dir).filename().string().substr(5);
    CHECK(fs::exists(host_dir));
  }

  std::string text(const std::string& key) const {
    const auto at = warden->out().find("\"" + key + "\":\"");
    const auto begin = at + key.size() + 4;
    return at == std::string::npos
               ? ""
               : warden->out().substr(begin, warden->out().find('"', begin) - begin);
  }
  pid_t number(const std::string& key) const {
    const auto at = warden->out().find("\"" + key + "\":");
    return at == std::string::npos ? -1 : std::stoi(warden->out().substr(at + key.size() + 3));
  }

  // No proc and no descendant of one is left by the deadline. Nor is, some time later, anything of
  // the host: no role, no directory, no cgroup. LeakSanitizer looks through each role at its end,
  // which takes seconds on a busy machine.
  void check_nothing_left(std::chrono::milliseconds deadline) {
    std::string left;
    const bool has_ended =
        wait_until([&] { return (left = to_string(processes_with(marker))).empty(); }, deadline);
    {
      INFO(left);
      CHECK(has_ended);
    }
    const bool clean = wait_until(
        [&] {
          left = to_string(processes_with(marker));
          for (const pid_t pid : {warden->pid(), keeper, broker, agent}) {
            if (!is_gone(pid)) left += "\nrole " + std::to_string(pid);
          }
          if (fs::exists(host_dir)) left += "\n" + host_dir;
          if (!cgroup.empty() && fs::exists(cgroup)) left += "\n" + cgroup;
          return left.empty();
        },
        deadline == std::chrono::milliseconds(0) ? deadline : deadline + std::chrono::seconds(10));
    CAPTURE(left);
    CAPTURE(warden->describe());
    CHECK(clean);
  }

  std::string marker = make_marker();
  std::unique_ptr<Process> warden;
  UniqueFd lifeline;
  UniqueFd ready;
  pid_t keeper = -1;
  pid_t broker = -1;
  pid_t agent = -1;
  std::string host_dir;
  std::string cgroup;

 private:
  TempDir programs_;
  std::string run_dir_;
};

void in_each_containment(const std::function<void(const std::string&)>& test) {
  test("sweep");
  if (cgroup_is_usable()) {
    test("cgroup");
  } else {
    MESSAGE("cgroup v2 is not usable here: only the sweep is tested");
  }
}

}  // namespace

TEST_CASE("warden: it says who runs where, and on SIGTERM ends everything in order") {
  in_each_containment([](const std::string& containment) {
    Host host({.containment = containment, .ready_fd = true});
    host.wait_ready();
    CHECK(host.text("host") == "unix:" + host.host_dir + "/bus");
    CHECK(host.text("containment") == (containment == "cgroup" ? "cgroup v2" : "sweep"));
    CHECK(host.number("pid") == host.warden->pid());
    CHECK(find_process(host.keeper)->parent == host.warden->pid());
    struct stat status{};
    REQUIRE(::stat(host.host_dir.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    char line[4096]{};
    CHECK(::read(host.ready.get(), line, sizeof line) > 0);
    CHECK(line == host.warden->out());
    host.warden->send_signal(SIGTERM);
    CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(0));
    host.check_nothing_left(0ms);
    CHECK(host.warden->err().empty());
  });
}

TEST_CASE("warden: a second signal does not wait for the grace") {
  Host host({.grace = 60s, .deaf = true});
  host.wait_ready();
  host.warden->send_signal(SIGINT);
  CHECK_FALSE(wait_until([&] { return !host.warden->is_running(); }, 200ms));
  CHECK(processes_with(host.marker).size() >= 8 * zoo_size);
  host.warden->send_signal(SIGINT);
  CHECK(host.warden->wait_exit(promise) == ExitStatus::exited(0));
  host.check_nothing_left(0ms);
}

TEST_CASE("warden: procs that do not hear SIGTERM are killed after the grace") {
  Host host({.grace = 300ms, .deaf = true});
  host.wait_ready();
  const auto begin = std::chrono::steady_clock::now();
  host.warden->send_signal(SIGHUP);
  CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(0));
  CHECK(std::chrono::steady_clock::now() - begin >= 300ms);
  host.check_nothing_left(0ms);
}

TEST_CASE(
    "warden: SIGKILL of keeper, agent or warden leaves nothing, whatever the descendants did") {
  in_each_containment([](const std::string& containment) {
    for (const std::string role : {"keeper", "agent", "warden"}) {
      CAPTURE(containment);
      CAPTURE(role);
      Host host({.containment = containment});
      host.wait_ready();
      const pid_t victim = role == "keeper"  ? host.keeper
                           : role == "agent" ? host.agent
                                             : host.warden->pid();
      REQUIRE(::kill(victim, SIGKILL) == 0);
      host.check_nothing_left(promise);
      if (role == "warden") continue;
      CHECK(host.warden->wait_exit(promise) == ExitStatus::exited(70));
      CHECK(host.warden->err().find("the " + role + " was killed by SIGKILL") != std::string::npos);
    }
  });
}

TEST_CASE(
    "warden: when its launcher is gone it stops everything in less than two seconds, whatever the "
    "grace") {
  in_each_containment([](const std::string& containment) {
    Host host({.containment = containment, .grace = 60s, .deaf = true, .lifeline = true});
    host.wait_ready();
    host.lifeline.reset();
    host.check_nothing_left(promise);
    CHECK(host.warden->wait_exit(promise) == ExitStatus::exited(0));
  });
}

TEST_CASE("warden: a dead broker is restarted at the same address, however often it dies") {
  Host host({});
  host.wait_ready();
  pid_t broker = host.broker;
  for (int i = 1; i <= 7; ++i) {
    REQUIRE(::kill(broker, SIGKILL) == 0);
    const std::string times = std::to_string(i) + (i == 1 ? " time" : " times");
    REQUIRE(wait_until(
        [&] { return host.warden->err().find("(" + times + " within 60 s)") != std::string::npos; },
        long_enough));
    REQUIRE(wait_until(
        [&] {
          for (const auto& child : children_of(host.warden->pid())) {
            // One that was cloned and has not yet executed still looks like the warden.
            const bool is_broker =
                child.command.find("meshbus-broker") != std::string::npos &&
                child.command.find("unix:" + host.host_dir + "/bus") != std::string::npos;
            if (!is_broker || child.pid == broker || child.is_dead()) continue;
            broker = child.pid;
            return true;
          }
          return false;
        },
        long_enough));
  }
  CHECK(processes_with(host.marker).size() >= 8 * zoo_size);  // nobody below noticed
  // Between two brokers, too, the host ends in order.
  REQUIRE(::kill(broker, SIGKILL) == 0);
  REQUIRE(wait_until(
      [&] { return host.warden->err().find("(8 times within 60 s)") != std::string::npos; },
      long_enough));
  host.warden->send_signal(SIGTERM);
  CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(0));
  host.check_nothing_left(0ms);
}

TEST_CASE("warden: the roles come last for the OOM killer, and procs do not") {
  const auto score_of = [](pid_t pid) {
    int score = 0;
    std::ifstream("/proc/" + std::to_string(pid) + "/oom_score_adj") >> score;
    return score;
  };
  Host host({});
  host.wait_ready();
  // Lowering it needs CAP_SYS_RESOURCE: without, roles keep the score that they were started with.
  const pid_t probe = ::fork();
  if (probe == 0) ::_exit(meshbus::os::lower_oom_score().has_value() ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(probe, &status, 0) == probe);
  const bool may_lower = status == 0;
  if (!may_lower)
    MESSAGE("the OOM score cannot be lowered here: roles keep that of their launcher");
  const int expected = may_lower ? meshbus::os::kRoleOomScore : score_of(::getpid());
  for (const pid_t role : {host.warden->pid(), host.keeper}) CHECK(score_of(role) == expected);
  const auto procs = processes_with(host.marker);
  std::size_t checked = 0;
  for (const auto& proc : procs) {
    if (proc.pid == host.warden->pid() || proc.pid == host.keeper || proc.pid == host.broker ||
        proc.pid == host.agent)
      continue;
    CHECK(score_of(proc.pid) == score_of(::getpid()));
    ++checked;
  }
  CHECK(checked >= 8 * zoo_size);
  host.warden->send_signal(SIGTERM);
  CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(0));
}

TEST_CASE("warden: the agent's shutdown ends the host with the code it gives") {
  Host host({.settings = {"agent=shuts-down"}});
  CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(3));
  CHECK(processes_with(host.marker).empty());
}

TEST_CASE(
    "warden: a host that cannot start says why, on stderr and to who started it, and leaves "
    "nothing") {
  const auto fails = [](Host::Options options, int code, const std::string& why) {
    options.ready_fd = true;
    Host host(options);
    CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(code));
    CHECK(host.warden->err().find(why) != std::string::npos);
    char line[4096]{};
    CHECK(::read(host.ready.get(), line, sizeof line - 1) > 0);
    CHECK(std::string(line).find("{\"error\":\"") == 0);
    CHECK(std::string(line).find(why) != std::string::npos);
    CHECK(host.warden->out().empty());
  };
  fails({.settings = {"broker=refuses"}}, 69, "the broker could not start: the address is taken");
  fails({.containment = "nonsense"}, 78,
        "MESHBUS_CONTAINMENT='nonsense': expected auto, cgroup, pidns or sweep");
  const TempDir directory;
  fs::create_directory(directory.path() / "open");
  fs::permissions(directory.path() / "open", fs::perms::all);
  fails({.run_dir = directory / "open"}, 78, "others may enter it (want mode 0700)");
  fs::create_symlink("open", directory.path() / "link");
  fails({.run_dir = directory / "link"}, 78, "it is a symbolic link");
  const std::string deep = directory / std::string(100, 'd');
  fails({.run_dir = deep}, 78, "choose a shorter run directory");
  CHECK(fs::is_empty(deep));
}

TEST_CASE("warden: frozen roles do not keep a host from ending") {
  for (const std::string role : {"keeper", "agent", "broker"}) {
    CAPTURE(role);
    Host host({.grace = 100ms, .lifeline = true});
    host.wait_ready();
    REQUIRE(::kill(role == "keeper"  ? host.keeper
                   : role == "agent" ? host.agent
                                     : host.broker,
                   SIGSTOP) == 0);
    host.warden->send_signal(SIGTERM);
    CHECK(host.warden->wait_exit(long_enough) == ExitStatus::exited(0));
    host.check_nothing_left(0ms);
  }
}

TEST_CASE("warden: what a whole killed host left is cleaned up by the next one") {
  in_each_containment([](const std::string& containment) {
    const TempDir directory;
    Host killed({.containment = containment, .run_dir = directory / "run"});
    killed.wait_ready();
    // Keeper and warden die at once, so no role is left to sweep; the kernel's parent-death signal
    // reaches only the procs.
    ::kill(killed.warden->pid(), SIGSTOP);
    ::kill(killed.keeper, SIGKILL);
    ::kill(killed.warden->pid(), SIGKILL);
    REQUIRE(wait_until(
        [&] {
          return is_gone(killed.warden->pid()) && is_gone(killed.agent) && is_gone(killed.broker);
        },
        long_enough));
    CHECK_FALSE(processes_with(killed.marker).empty());
    CHECK(fs::exists(killed.host_dir));
    Host next({.containment = containment, .run_dir = directory / "run"});
    next.wait_ready();
    killed.check_nothing_left(0ms);
    CHECK(next.warden->err().find("cleaned up after 1 host") != std::string::npos);
    next.warden->send_signal(SIGTERM);
    CHECK(next.warden->wait_exit(long_enough) == ExitStatus::exited(0));
    next.check_nothing_left(0ms);
  });
}

// Spec 4.7: after the end of any one role, by SIGKILL too, no descendant of a proc is alive within
// two seconds.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "agent/os/limit_places.h"
#include "common/base/unique_fd.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t ranks = 8;
const std::set<std::string> kinds = {"rank", "session", "daemon", "bare", "deaf"};

/// The processes of a zoo (tests/programs/zoo.cpp) that have said that they are there: pid and
/// kind.
std::map<pid_t, std::string> animals_in(const fs::path& directory) {
  std::map<pid_t, std::string> found;
  std::error_code ignored;
  for (auto at = fs::directory_iterator(directory, ignored); at != fs::directory_iterator();
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.front() != '.')
      found[std::stoi(name.substr(name.find('.') + 1))] = name.substr(0, name.find('.'));
  }
  return found;
}

/// Whether a process holds a lock on that file.
bool is_locked(const fs::path& file) {
  const meshbus::UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

/// The number that a process has in its own pid namespace, or the one here.
pid_t own_number_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("NSpid:")) return std::stoi(line.substr(line.find_last_of("\t ") + 1));
  }
  return pid;
}

/// A zoo of eight ranks on one host.
class Zoo {
 public:
  explicit Zoo(Words options) {
    options.insert(options.begin(), "run");
    options.insert(options.end(),
                   {"-n", std::to_string(ranks), "--", bin("test_zoo"), dir_.path().string()});
    launcher_ = std::make_unique<Process>(cli(options));
    wait_until(
        [&] {
          return animals_in(dir_.path()).size() == ranks * kinds.size() || !launcher_->is_running();
        },
        in_time);
    INFO(launcher_->describe());
    const auto known = animals_in(dir_.path());
    for (const auto& one : processes_with(dir_.path().string())) {
      if (const auto animal = known.find(own_number_of(one.pid)); animal != known.end())
        animals_[one.pid] = animal->second;
    }
    REQUIRE(animals_.size() == ranks * kinds.size());
    REQUIRE(living().size() == animals_.size());
  }
  Process& launcher() { return *launcher_; }
  std::vector<pid_t> living() const { return living_of(""); }
  std::vector<pid_t> living_of(const std::string& kind) const {
    std::vector<pid_t> found;
    for (const auto& [pid, its_kind] : animals_) {
      if (!is_gone(pid) && (kind.empty() || its_kind == kind)) found.push_back(pid);
    }
    return found;
  }
  /// Whatever carries the zoo's directory in its command line: what the pids alone may not show.
  /// Not the launcher, nor what looks for leaks in it while it ends: a clone of it, as long as it
  /// is there.
  std::vector<ProcessInfo> relatives() const {
    // First: afterwards the launcher may have ended, and its clone with it.
    const auto self = find_process(launcher_->pid());
    auto found = processes_with(dir_.path().string());
    std::erase_if(found, [&](const ProcessInfo& one) {
      return one.pid == launcher_->pid() ||
             (self && one.parent == self->pid && one.command == self->command);
    });
    return found;
  }

 private:
  TempDir dir_;
  std::unique_ptr<Process> launcher_;
  std::map<pid_t, std::string> animals_;
};

std::string describe(const std::vector<pid_t>& pids) {
  std::string text;
  for (const pid_t pid : pids) {
    if (const auto found = find_process(pid)) text += "\n" + found->to_string();
  }
  return text;
}

/// The roles promise nothing about themselves; LeakSanitizer looks through each of them at its end,
/// which takes seconds where there is no CPU to spare.
constexpr std::chrono::milliseconds roles_gone = cleaned_up + std::chrono::seconds(10);

/// A broker that ends is restarted, and ends nothing: it is killed together with the launcher.
enum class Victim { launcher, warden, keeper, agent, broker };
const std::string victim_names[] = {"launcher", "warden", "keeper", "agent", "broker"};

void kill_one(Victim victim, const std::string& containment) {
  Zoo zoo({"--hosts", "1", "--containment", containment, "--set", "agent.restart=end"});
  const pid_t launcher = zoo.launcher().pid();
  const auto wardens = wardens_of(launcher);
  REQUIRE(wardens.size() == 1);
  const auto roles = find_roles(wardens.front());
  REQUIRE(roles);
  const auto directories = host_directories();
  REQUIRE(directories.size() == 1);
  const auto cgroups = cgroups_of(directories);
  // Where v2 has the controllers they are for what limits the whole host.
  const bool may_limit =
      !meshbus::os::LimitPlaces::find("test", meshbus::os::plan_cgroup_placement())
           .v2_path()
           .empty();
  if (containment != "auto" && !may_limit) CHECK(cgroups.empty());

  const pid_t target =
      std::vector<pid_t>{launcher, roles->warden, roles->keeper, roles->agent, roles->broker}.at(
          static_cast<std::size_t>(victim));
  REQUIRE(::kill(target, SIGKILL) == 0);
  const bool is_launcher_gone = victim == Victim::launcher || victim == Victim::broker;
  if (victim == Victim::broker) ::kill(launcher, SIGKILL);
  const auto took = time_until([&] { return zoo.living().empty(); }, cleaned_up);
  INFO("survivors:" << describe(zoo.living()));
  CHECK(took.has_value());
  CHECK(to_string(zoo.relatives()) == "");
  const auto are_roles_gone = [&] {
    for (const pid_t pid : roles->all()) {
      if (!is_gone(pid)) return false;
    }
    return true;
  };
  // When the warden is killed in a pid namespace, the kernel kills all the others before any of
  // them can remove files.
  const bool leaves_files = containment == "pidns" && victim == Victim::warden;
  const auto host_took = time_until(
      [&] {
        return are_roles_gone() &&
               (leaves_files || (host_directories().empty() && limits_of(directories).empty() &&
                                 cgroups_of(directories).empty()));
      },
      roles_gone);
  if (leaves_files) StandingHost next;
  INFO("roles:\n" << roles->to_string());
  CHECK(host_took.has_value());
  CHECK(cgroups_of(directories).empty());
  CHECK(limits_of(directories).empty());
  CHECK(host_directories().empty());
  MESSAGE("kill -9 of the " << victim_names[static_cast<std::size_t>(victim)] << ", "
                            << std::string(containment != "auto" ? containment
                                           : cgroups.empty()     ? "sweep"
                                                                 : "cgroup v2")
                            << ": 0 of " << ranks * kinds.size() << " left after "
                            << (took ? std::to_string(took->count()) : "more than 2000")
                            << " ms, nothing of the host after "
                            << (took && host_took ? std::to_string((*took + *host_took).count())
                                                  : "too many")
                            << " ms");
  if (is_launcher_gone) return;
  // The launcher says what became of its host, and leaves.
  CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(123));
  INFO(zoo.launcher().err());
  // The host itself may tell that its warden has died, and does not know the signal.
  if (victim != Victim::keeper && victim != Victim::warden)
    CHECK(zoo.launcher().err().find("SIGKILL") != std::string::npos);
  if (victim == Victim::warden)
    CHECK(zoo.launcher().err().find("host lost: ") != std::string::npos);
  else
    CHECK(zoo.launcher().err().find(victim_names[static_cast<std::size_t>(victim)]) !=
          std::string::npos);
}

void kill_three_times(Victim victim) {
  for (const std::string& containment : containments()) {
    for (int round = 1; round <= 3; ++round) {
      CAPTURE(containment);
      CAPTURE(round);
      kill_one(victim, containment);
    }
  }
}

}  // namespace

TEST_CASE("nothing left: kill -9 of the launcher") {
  kill_three_times(Victim::launcher);
}
TEST_CASE("nothing left: kill -9 of the warden") {
  kill_three_times(Victim::warden);
}
TEST_CASE("nothing left: kill -9 of the keeper") {
  kill_three_times(Victim::keeper);
}
TEST_CASE("nothing left: kill -9 of the agent") {
  kill_three_times(Victim::agent);
}
TEST_CASE("nothing left: kill -9 of the broker, and of the launcher behind it") {
  kill_three_times(Victim::broker);
}

TEST_CASE("nothing left: one rank is killed, and its descendants go with it, but no other's") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    Zoo zoo({"--keep-going", "--containment", containment});
    ::kill(zoo.living_of("rank").front(), SIGKILL);
    const auto took =
        time_until([&] { return zoo.living().size() == (ranks - 1) * kinds.size(); }, cleaned_up);
    CHECK(took.has_value());
    for (const std::string& kind : kinds) {
      CAPTURE(kind);
      CHECK(zoo.living_of(kind).size() == ranks - 1);
    }
    if (took)
      MESSAGE("kill -9 of a rank, " << containment << ": its descendants were gone after "
                                    << took->count() << " ms");
    zoo.launcher().send_signal(SIGINT);
    zoo.launcher().wait_for_output("stopping the mesh", in_time);
    zoo.launcher().send_signal(SIGINT);
    zoo.launcher().wait_exit(in_time);
    CHECK(to_string(zoo.relatives()) == "");
    CHECK(host_directories().empty());
  }
}

TEST_CASE(
    "nothing left: kill -9 of a launcher on a host that stands ends its procs' descendants, and "
    "the host stays") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    StandingHost host({"--containment", containment});
    Zoo zoo({"--hosts", host.address()});
    zoo.launcher().send_signal(SIGKILL);
    const auto took = time_until([&] { return zoo.living().empty(); }, cleaned_up);
    INFO("survivors:" << describe(zoo.living()));
    CHECK(took.has_value());
    CHECK(to_string(zoo.relatives()) == "");
    if (took)
      MESSAGE("kill -9 of the launcher of a host that stands, " << containment << ": 0 left after "
                                                                << took->count() << " ms");
    CHECK(host.process().is_running());
    CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status ==
          ExitStatus::exited(0));
  }
}

TEST_CASE(
    "nothing left: a host that stands and loses its keeper or agent ends, and its launcher is "
    "told") {
  for (const bool is_keeper : {true, false}) {
    StandingHost host({"--set", "agent.restart=end"});
    // A host that does not answer may come back; the limit says how long that is waited for.
    Zoo zoo({"--hosts", host.address(), "--set", "delivery.limit=2s"});
    ::kill(is_keeper ? host.roles().keeper : host.roles().agent, SIGKILL);
    CHECK(wait_until([&] { return zoo.living().empty(); }, cleaned_up));
    CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(70));
    CHECK(host.process().err().find(is_keeper
                                        ? "the keeper was killed by SIGKILL"
                                        : "the agent was killed by SIGKILL") != std::string::npos);
    const auto took = time_until([&] { return !zoo.launcher().is_running(); }, in_time);
    INFO(zoo.launcher().describe());
    REQUIRE(took);
    MESSAGE("the launcher of a host that was lost ended after " << took->count() << " ms");
    CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(123));
    CHECK(host_directories().empty());
  }
}

TEST_CASE("nothing left: a descendant that forks and ends all the time is caught, whoever dies") {
  for (const std::string& containment : containments()) {
    for (const Victim victim :
         {Victim::launcher, Victim::warden, Victim::keeper, Victim::agent, Victim::broker}) {
      const TempDir dir;
      Process launcher(
          cli({"run", "--containment", containment, "--set", "agent.restart=end", "--grace",
               "100ms", "--", bin("test_zoo"), "--runner", dir.path().string()}));
      REQUIRE(wait_until(
          [&] { return animals_in(dir.path()).size() == 2 || !launcher.is_running(); }, in_time));
      const auto wardens = wardens_of(launcher.pid());
      REQUIRE(wardens.size() == 1);
      const auto roles = find_roles(wardens.front());
      REQUIRE(roles);
      const std::string name = victim_names[static_cast<std::size_t>(victim)];
      CAPTURE(containment);
      CAPTURE(name);
      const auto relatives = [&] {
        auto found = processes_with(dir.path().string());
        std::erase_if(found, [&](const ProcessInfo& one) { return one.pid == launcher.pid(); });
        return found;
      };
      // A look at all processes, of which there may be thousands, may miss one that forks and ends
      // all the time: a lock is what tells.
      const auto is_running = [&] { return is_locked(dir.path() / ".running"); };
      const auto is_running_away = [&] {
        return std::filesystem::exists(dir.path() / ".ran") && is_running();
      };
      REQUIRE(wait_until(is_running_away, in_time));
      ::kill(std::vector<pid_t>{launcher.pid(), roles->warden, roles->keeper, roles->agent,
                                roles->broker}
                 .at(static_cast<std::size_t>(victim)),
             SIGKILL);
      if (victim == Victim::broker) ::kill(launcher.pid(), SIGKILL);
      const auto took =
          time_until([&] { return !is_running() && relatives().empty(); }, cleaned_up);
      CHECK(took.has_value());
      if (took)
        MESSAGE("kill -9 of the " << name << ", " << containment << ": a runaway was caught after "
                                  << took->count() << " ms");
      CHECK(wait_until([&] { return !launcher.is_running(); }, in_time));
      CHECK(to_string(relatives()) == "");
    }
  }
}

TEST_CASE("nothing left: Ctrl-C, a failing rank and a timeout end hostile descendants too") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    {
      Zoo zoo({"--grace", "200ms", "--containment", containment});
      zoo.launcher().send_signal(SIGINT);
      CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(130));
      CHECK(to_string(zoo.relatives()) == "");
    }
    {
      Zoo zoo({"--grace", "200ms", "--containment", containment});
      ::kill(zoo.living_of("rank").back(), SIGSEGV);
      CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(139));
      CHECK(to_string(zoo.relatives()) == "");
    }
    CHECK(host_directories().empty());
  }
}

TEST_CASE("nothing left: in a pid namespace all roles may die at once" *
          doctest::test_suite(need::pid_namespace)) {
  for (int round = 0; round < 3; ++round) {
    Zoo zoo({"--containment", "pidns"});
    const auto roles = find_roles(wardens_of(zoo.launcher().pid()).at(0));
    REQUIRE(roles);
    for (const pid_t pid : roles->all()) ::kill(pid, SIGKILL);
    const auto took = time_until([&] { return zoo.living().empty(); }, cleaned_up);
    INFO("survivors:" << describe(zoo.living()));
    CHECK(took.has_value());
    if (took)
      MESSAGE("kill -9 of all four roles, pidns: 0 of " << ranks * kinds.size() << " left after "
                                                        << took->count() << " ms");
    CHECK(to_string(zoo.relatives()) == "");
    CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(123));
    StandingHost next;  // removes the run directory
  }
  CHECK(host_directories().empty());
}

TEST_CASE("nothing left: with cgroup v2, all roles but one may die at once" *
          doctest::test_suite(need::own_cgroup)) {
  for (const std::string survivor : {"warden", "keeper", "agent", "broker"}) {
    CAPTURE(survivor);
    Zoo zoo({"--containment", "cgroup"});
    const auto roles = find_roles(wardens_of(zoo.launcher().pid()).at(0));
    REQUIRE(roles);
    const auto directories = host_directories();
    const std::map<std::string, pid_t> all{{"warden", roles->warden},
                                           {"keeper", roles->keeper},
                                           {"agent", roles->agent},
                                           {"broker", roles->broker}};
    // Stopped first: none of them can do anything about the end of another.
    for (const auto& [name, pid] : all) {
      if (name != survivor) ::kill(pid, SIGSTOP);
    }
    for (const auto& [name, pid] : all) {
      if (name != survivor) ::kill(pid, SIGKILL);
    }
    const auto took = time_until([&] { return zoo.living().empty(); }, cleaned_up);
    INFO("survivors:" << describe(zoo.living()));
    CHECK(took.has_value());
    if (took)
      MESSAGE("kill -9 of all roles but the " << survivor << ": 0 of " << ranks * kinds.size()
                                              << " left after " << took->count() << " ms");
    CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(123));
    for (const auto& [name, pid] : all)
      CHECK(wait_until([&, one = pid] { return is_gone(one); }, cleaned_up));
    StandingHost next;  // removes the run directory and the cgroup
    CHECK(to_string(zoo.relatives()) == "");
    CHECK(cgroups_of(directories).empty());
  }
  CHECK(host_directories().empty());
}

TEST_CASE("nothing left: a role that is stopped when its warden is killed ends, too") {
  for (const std::string& containment : containments()) {
    for (const bool is_agent : {true, false}) {
      CAPTURE(containment);
      CAPTURE(is_agent);
      Zoo zoo({"--containment", containment});
      const auto roles = find_roles(wardens_of(zoo.launcher().pid()).at(0));
      REQUIRE(roles);
      const pid_t stopped = is_agent ? roles->agent : roles->broker;
      ::kill(stopped, SIGSTOP);
      ::kill(roles->warden, SIGKILL);
      CHECK(time_until([&] { return zoo.living().empty() && is_gone(stopped); }, cleaned_up)
                .has_value());
      CHECK(to_string(zoo.relatives()) == "");
      zoo.launcher().wait_exit(in_time);
      if (containment == "pidns") StandingHost next;
    }
  }
  CHECK(host_directories().empty());
}

TEST_CASE(
    "nothing left: kill -9 of a whole host's roles is cleaned up by the next host of this user") {
  Zoo zoo({"--containment", "auto"});
  const auto roles = find_roles(wardens_of(zoo.launcher().pid()).at(0));
  REQUIRE(roles);
  const auto directories = host_directories();
  for (const pid_t pid : {roles->warden, roles->keeper, roles->agent, roles->broker})
    ::kill(pid, SIGKILL);
  CHECK(zoo.launcher().wait_exit(in_time) == ExitStatus::exited(123));
  {
    StandingHost next;
    CHECK(to_string(zoo.relatives()) == "");
    CHECK(cgroups_of(directories).empty());
    CHECK(limits_of(directories).empty());
    CHECK(host_directories().size() == 1);
  }
  CHECK(host_directories().empty());
}

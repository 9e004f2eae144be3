// Spec 8.7: nobody is told dead because the machine is busy, or because a part of meshbus was
// stopped for less than the limits.
//   MESHBUS_TEST_STARVED_SECONDS=600   so long instead of 60
//   MESHBUS_TEST_STARVED_SEED=4711     the same stops again
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

cpu_set_t affinity_of(pid_t tid) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  REQUIRE(::sched_getaffinity(tid, sizeof cpus, &cpus) == 0);
  return cpus;
}

void set_affinity(pid_t tid, const cpu_set_t& cpus) {
  REQUIRE(::sched_setaffinity(tid, sizeof cpus, &cpus) == 0);
}

void set_policy(pid_t tid, int policy) {
  const sched_param parameter{.sched_priority = policy == SCHED_FIFO ? 1 : 0};
  REQUIRE(::sched_setscheduler(tid, policy, &parameter) == 0);
}

/// Keeps this thread, and what it starts, off one CPU as long as it lives.
class FreedCpu {
 public:
  FreedCpu() : before_(affinity_of(0)) {
    for (cpu_ = CPU_SETSIZE - 1; !CPU_ISSET(cpu_, &before_);) --cpu_;
    cpu_set_t others = before_;
    CPU_CLR(cpu_, &others);
    set_affinity(0, others);
  }
  ~FreedCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
  FreedCpu(const FreedCpu&) = delete;
  FreedCpu& operator=(const FreedCpu&) = delete;
  cpu_set_t only() const {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu_, &cpus);
    return cpus;
  }

 private:
  cpu_set_t before_;
  std::size_t cpu_ = 0;
};

/// Takes a CPU away from all threads of a process as long as it lives. The kernel leaves 5 % of a
/// CPU to ordinary programs, whatever has a higher priority: an ordinary loop uses that up, and the
/// threads run only when nobody else wants to.
class Starvation {
 public:
  Starvation(pid_t victim, const FreedCpu& cpu) : before_(affinity_of(victim)) {
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(victim) + "/task")) {
      threads_.push_back(std::stoi(entry.path().filename()));
      set_affinity(threads_.back(), cpu.only());
      set_policy(threads_.back(), SCHED_IDLE);
    }
    set_affinity(ordinary_.pid(), cpu.only());
    set_affinity(favoured_.pid(), cpu.only());
    set_policy(favoured_.pid(), SCHED_FIFO);
  }
  ~Starvation() {
    const sched_param parameter{};
    for (const pid_t thread : threads_) {
      ::sched_setscheduler(thread, SCHED_OTHER, &parameter);
      ::sched_setaffinity(thread, sizeof before_, &before_);
    }
  }
  Starvation(const Starvation&) = delete;
  Starvation& operator=(const Starvation&) = delete;

 private:
  cpu_set_t before_;
  std::vector<pid_t> threads_;
  // They end on their own before long, whatever becomes of the test.
  Process ordinary_{{"perl", "-e", "alarm 20; 1 while 1"}};
  Process favoured_{{"perl", "-e", "alarm 20; 1 while 1"}};
};

}  // namespace

TEST_CASE(
    "false alarms: none while all CPUs are busy and roles are stopped for less than the limits") {
  const std::chrono::seconds duration(number_from_environment("MESHBUS_TEST_STARVED_SECONDS", 60));
  const auto seed = number_from_environment("MESHBUS_TEST_STARVED_SEED", std::random_device{}());
  MESSAGE("MESHBUS_TEST_STARVED_SEED=" << seed);
  StandingHost host;
  const TempDir dir;
  // For longer than this takes, and as nobody else does.
  const std::string sleep =
      "sleep " + std::to_string(duration.count() + 600) + "." + std::to_string(::getpid()) + "1";
  Process controller({bin("meshbus-controller"), "--hosts", host.address()});
  Process plain(cli({"run", "--hosts", host.address(), "--name", "plain", "-n", "8", "--", "sh",
                     "-c", "exec " + sleep}));
  Process mesh(cli({"run", "--hosts", host.address(), "--name", "mesh", "--mesh", "-n", "4", "--",
                    bin("echo_proc"), dir.path().string()}));
  const auto is_told_ready = [&] {
    std::size_t count = 0;
    for (const auto& line : lines_of(controller.out()))
      count += line.find("\"state\":\"ready\"") != std::string::npos;
    return count == 12;
  };
  {
    const bool is_up =
        wait_until([&] { return sleepers(sleep).size() == 8 && is_told_ready(); }, in_time);
    INFO(controller.describe() << plain.describe() << mesh.describe());
    REQUIRE(is_up);
  }
  const auto pids_now = [&] {
    std::set<pid_t> pids;
    for (const auto& one : sleepers(sleep)) pids.insert(one.pid);
    for (const auto& one : processes_with(dir.path().string())) pids.insert(one.pid);
    return pids;
  };
  const auto before = pids_now();
  const auto roles = host.roles();

  std::vector<std::unique_ptr<Process>> burners;
  for (unsigned i = 0; i < 4 * std::max(1u, std::thread::hardware_concurrency()); ++i)
    burners.push_back(std::make_unique<Process>(std::vector<std::string>{
        "perl", "-e", "alarm " + std::to_string(duration.count() + 60) + "; 1 while 1"}));
  std::mt19937_64 random(seed);
  const std::vector<pid_t> victims{roles.warden,     roles.keeper, roles.agent, roles.broker,
                                   controller.pid(), plain.pid(),  mesh.pid()};
  std::size_t stops = 0;
  const auto pause = [&](int most_ms) {
    const std::chrono::milliseconds time(random() % static_cast<unsigned>(most_ms));
    std::this_thread::sleep_for(time);  // sleep-ok: random moments
  };
  for (const auto end = std::chrono::steady_clock::now() + duration;
       std::chrono::steady_clock::now() < end; ++stops) {
    const pid_t victim = victims[random() % victims.size()];
    ::kill(victim, SIGSTOP);
    pause(2000);  // a host that is silent for 4 s is unreachable
    ::kill(victim, SIGCONT);
    pause(1000);
  }
  burners.clear();

  INFO(controller.describe() << plain.describe() << mesh.describe());
  CHECK(pids_now() == before);
  CHECK(plain.is_running());
  CHECK(mesh.is_running());
  CHECK(controller.is_running());
  const auto now = host.roles();
  CHECK(now.all() == roles.all());
  for (const std::string& line : lines_of(controller.out())) {
    CAPTURE(line);
    for (const std::string alarm : {"\"failed\"", "\"killed\"", "\"stopped\"", "host_unreachable",
                                    "\"ended\"", "query_failed", "\"frozen\""})
      CHECK(line.find(alarm) == std::string::npos);
  }
  for (Process* launcher : {&plain, &mesh}) {
    CHECK(launcher->err().find("lost") == std::string::npos);
    launcher->send_signal(SIGINT);
    CHECK(launcher->wait_exit(in_time) == ExitStatus::exited(130));
  }
  // It has not missed all of this: it tells of the ends that there were now.
  const auto tells_ends = [&] {
    std::size_t count = 0;
    for (const auto& line : lines_of(controller.out()))
      count += line.find("\"ended\"") != std::string::npos;
    return count == 2;
  };
  CHECK(wait_until(tells_ends, in_time));
  controller.send_signal(SIGTERM);
  controller.wait_exit(in_time);
  MESSAGE(stops << " stops of up to 2 s within " << duration.count() << " s beside "
                << burners.capacity() << " busy loops: no false alarm");
}

TEST_CASE(
    "false alarms: whoever is stopped for longer than it takes to be missed, and shorter than the "
    "limits, is missed, and nobody is told "
    "dead") {
  StandingHost host;
  const TempDir dir;
  const std::string sleep = own_sleep();
  Process controller({bin("meshbus-controller"), "--hosts", host.address(), "--set",
                      "supervision.poll=1s", "--set", "lease=15s"});
  Process plain(cli({"run", "--hosts", host.address(), "--set", "lease=15s", "--name", "plain",
                     "-n", "4", "--", "sh", "-c", "exec " + sleep}));
  Process mesh(cli({"run", "--hosts", host.address(), "--set", "lease=15s", "--name", "mesh",
                    "--mesh", "-n", "2", "--", bin("echo_proc"), dir.path().string()}));
  const auto told = [&](const std::string& what) {
    std::size_t count = 0;
    for (const auto& line : lines_of(controller.out()))
      count += line.find(what) != std::string::npos;
    return count;
  };
  {
    const bool is_up = wait_until(
        [&] { return sleepers(sleep).size() == 4 && told("\"state\":\"ready\"") == 6; }, in_time);
    INFO(controller.describe() << plain.describe() << mesh.describe());
    REQUIRE(is_up);
  }
  const auto pids_now = [&] {
    std::set<pid_t> pids;
    for (const auto& one : sleepers(sleep)) pids.insert(one.pid);
    for (const auto& one : processes_with(dir.path().string())) pids.insert(one.pid);
    return pids;
  };
  const auto before = pids_now();
  const auto roles = host.roles();
  // A broker is given up after 10 s (session.away), an agent after 30 s (frozen).
  std::size_t stops = 0;
  for (const pid_t victim : {roles.broker, roles.agent}) {
    CAPTURE(stops);
    ++stops;
    REQUIRE(::kill(victim, SIGSTOP) == 0);
    CHECK(wait_until([&] { return told("host_unreachable") == stops; }, 8s));
    REQUIRE(::kill(victim, SIGCONT) == 0);
    REQUIRE(wait_until([&] { return told("host_back") == stops; }, in_time));
    CHECK(pids_now() == before);
  }
  // Those that watch and own, all of them at once, for several of their polls and half of a lease.
  for (const pid_t victim : {roles.warden, roles.keeper, controller.pid(), plain.pid(), mesh.pid()})
    ::kill(victim, SIGSTOP);
  CHECK_FALSE(wait_until([&] { return pids_now() != before; }, 8s));
  for (const pid_t victim : {roles.warden, roles.keeper, controller.pid(), plain.pid(), mesh.pid()})
    ::kill(victim, SIGCONT);
  // It was late, and says so; afterwards it is as it was.
  CHECK(wait_until([&] { return told("\"event\":\"late\"") >= 1; }, in_time));
  CHECK_FALSE(wait_until([&] { return pids_now() != before; }, 2s));
  CHECK(host.roles().all() == roles.all());
  CHECK(find_roles(roles.warden)->all() == roles.all());
  for (const std::string alarm :
       {"\"failed\"", "\"killed\"", "\"stopped\"", "\"ended\"", "query_failed"})
    CHECK(told(alarm) == 0);
  for (Process* launcher : {&plain, &mesh}) {
    CHECK(launcher->err().find("lost") == std::string::npos);
    launcher->send_signal(SIGINT);
    CHECK(launcher->wait_exit(in_time) == ExitStatus::exited(130));
  }
  controller.send_signal(SIGTERM);
  controller.wait_exit(in_time);
}

TEST_CASE("false alarms: a role that waits for a CPU is not frozen, and is when it is stopped" *
          doctest::test_suite(need::real_time)) {
  const FreedCpu cpu;
  for (const std::string role : {"broker", "agent", "keeper"}) {
    CAPTURE(role);
    StandingHost host({"--set", "frozen.limit=600ms"});
    const std::string sleep = own_sleep();
    Process launcher(
        cli({"run", "--hosts", host.address(), "-n", "4", "--", "sh", "-c", "exec " + sleep}));
    REQUIRE(wait_until([&] { return sleepers(sleep).size() == 4; }, in_time));
    const auto roles = host.roles();
    const pid_t victim = role == "broker"  ? roles.broker
                         : role == "agent" ? roles.agent
                                           : roles.keeper;
    const auto times_told = [&] {
      std::size_t count = 0;
      for (const auto& line : lines_of(host.process().err()))
        count += line.starts_with("meshbus host: the " + role) &&
                 line.ends_with("it waits for a CPU and is left alone");
      return count;
    };
    const auto is_called_frozen = [&] {
      return host.process().err().find("it is frozen") != std::string::npos;
    };
    {
      const Starvation starvation(victim, cpu);
      // About 600 ms each.
      CHECK(wait_until([&] { return times_told() >= 4 || is_called_frozen(); }, 18s));
    }
    INFO(host.process().describe());
    REQUIRE_FALSE(is_called_frozen());
    CHECK(times_told() >= 4);
    CHECK(find_roles(roles.warden)->all() == roles.all());
    CHECK(sleepers(sleep).size() == 4);
    CHECK(launcher.is_running());

    REQUIRE(::kill(victim, SIGSTOP) == 0);
    const auto is_found = [&] {
      for (const auto& line : lines_of(host.process().err())) {
        if (line.starts_with("meshbus host: the " + role) &&
            line.ends_with("it is frozen (stopped); killing it"))
          return true;
      }
      return false;
    };
    CHECK(wait_until(is_found, 10s));
    if (role == "keeper") {
      CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(70));
      CHECK(sleepers(sleep).empty());
    } else {
      REQUIRE(wait_until([&] { return find_roles(roles.warden).has_value(); }, in_time));
      CHECK(sleepers(sleep).size() == 4);
      launcher.send_signal(SIGINT);
    }
    launcher.wait_exit(in_time);
    CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
  }
}

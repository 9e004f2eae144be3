#include "agent/warden/host_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "agent/os/cgroup.h"
#include "agent/os/host_place.h"
#include "agent/os/run_directory.h"
#include "agent/os/sweep.h"
#include "agent/warden/exit_codes.h"
#include "agent/warden/ready_report.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;

constexpr auto start_limit = 20s;
constexpr auto agent_slack = 2s;             // what the agent has beyond the grace: KILL, reap, acknowledge
constexpr auto lost_launcher_grace = 800ms;  // all of it within 2 s
constexpr auto sweep_limit = 2s;
constexpr auto goodbye_limit = 500ms;
constexpr auto kill_limit = 1s;  // from SIGKILL of a role to giving it up as stuck in state D
constexpr auto own_sweep_limit = 10s;

}  // namespace

HostProcess::HostProcess(const WardenOptions& options)
    : options_(options), libexec_(options.libexec), ready_fd_(options.ready_fd), launcher_(options.lifeline_fd), grace_(options.grace) {}

int HostProcess::run() {
  if (auto done = set_up(); !done) {
    fail_start(done.error().exit_code, done.error().why);
  } else {
    for (auto start : {&HostProcess::limit_pids, &HostProcess::start_keeper, &HostProcess::start_broker}) {
      if (auto started = (this->*start)(); !started) {
        fail_start(exit_os_file, started.error().detail());
        break;
      }
    }
    if (phase_ == Phase::starting) deadline_ = Clock::now() + start_limit;
  }
  while (phase_ != Phase::ended) turn();
  return finish();
}

void HostProcess::turn() {
  std::array<Role*, 3> roles{&keeper_, &broker_, &agent_};
  std::array<pollfd, 5> watched{};
  watched[0] = {signals_.get(), POLLIN, 0};
  watched[1] = {launcher_.get(), POLLIN, 0};
  for (std::size_t i = 0; i < roles.size(); ++i) watched[2 + i] = {roles[i]->lifeline ? roles[i]->lifeline.fd() : -1, POLLIN, 0};
  int timeout = -1;
  if (const auto due = deadline_ ? deadline_ : phase_ == Phase::running ? look_due_ : std::nullopt) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - Clock::now()).count();
    timeout = static_cast<int>(std::clamp<long>(static_cast<long>(left), 0, 60'000));
  }
  if (::poll(watched.data(), watched.size(), timeout) < 0) return;  // EINTR
  // What a role said before its end is heard before its end.
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (watched[2 + i].revents != 0) on_lifeline(*roles[i]);
  }
  if (watched[1].revents != 0) on_launcher();
  if (watched[0].revents != 0) on_signals();
  if (deadline_ && Clock::now() >= *deadline_) on_deadline();
  if (phase_ == Phase::running && look_due_ && Clock::now() >= *look_due_) look_for_frozen();
}

void HostProcess::on_signals() {
  std::array<signalfd_siginfo, 8> received;
  const ssize_t got = ::read(signals_.get(), received.data(), sizeof received);
  const std::size_t count = got > 0 ? static_cast<std::size_t>(got) / sizeof received[0] : 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int signal = static_cast<int>(received[i].ssi_signo);
    if (signal == SIGCHLD) {
      reap_children();
    } else if (phase_ == Phase::starting) {
      fail_start(128 + signal, "interrupted by SIG" + std::string(::sigabbrev_np(signal)) + " while starting");
    } else if (phase_ == Phase::running) {
      end(0, options_.grace);
    } else if (phase_ == Phase::stopping_agent) {
      enter(Phase::sweeping);  // asked twice: at once
    }
  }
}

void HostProcess::on_launcher() {
  std::array<char, 256> ignored;
  const ssize_t got = ::read(launcher_.get(), ignored.data(), ignored.size());
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  launcher_.reset();
  const auto grace = std::min<std::chrono::milliseconds>(options_.grace, lost_launcher_grace);
  if (phase_ == Phase::starting) {
    fail_start(exit_unavailable, "the launcher ended while the host was starting");
  } else if (phase_ == Phase::running) {
    end(0, grace);
  } else if (phase_ == Phase::stopping_agent && deadline_ && grace < grace_) {
    end(exit_code_, grace);  // a longer goodbye was under way
  }
}

void HostProcess::on_lifeline(Role& role) {
  while (role.lifeline) {
    const auto received = role.lifeline.receive();
    if (received.ended) return role.lifeline.close();  // its exit follows by SIGCHLD
    if (!received.text) return;
    on_message(role, *received.text);
  }
}

void HostProcess::on_message(Role& role, std::string_view text) {
  const auto message = os::parse_lifeline(text);
  role.silence.start_anew(Clock::now());
  if (message.word == "ready") {
    role.ready = true;
    role.said = message.rest;
    on_ready();
  } else if (message.word == "failed") {
    role.said = message.rest;
  } else if (message.word == "swept") {
    swept_ = true;
  } else if (message.word == "shutdown" && phase_ == Phase::running) {
    end(std::atoi(std::string(message.rest).c_str()),
        0ms);  // the procs are stopped and that was acknowledged: only the agent itself is left
  }
}

void HostProcess::on_ready() {
  if (phase_ != Phase::starting || !broker_.ready) return;
  if (!agent_.alive()) {
    if (!broker_.said.empty()) {
      // The concrete one: "any port" was a wish, and a restarted broker must come back at the same.
      if (!binds_.empty() && binds_.front() == address_) binds_.front() = broker_.said;
      address_ = broker_.said;
    }
    if (auto started = start_agent(); !started) fail_start(exit_os_file, started.error().detail());
    return;
  }
  if (!agent_.ready || !keeper_.ready) return;
  phase_ = Phase::running;
  deadline_.reset();
  // The first look is what the next ones compare with.
  if (options_.frozen_limit.count() > 0) look_due_ = Clock::now();
  if (auto written = write_host_file(*directory_, host_address_file, address_ + "\n"); !written) say(written.error().detail());
  const ReadyReport ready{.host = address_,
                          .containment = containment(),
                          .containment_reason = containment_reason_,
                          .pids_limit = pids_limit_,
                          .pids_reason = pids_reason_,
                          .run_dir = directory_->path,
                          .pid = ::getpid(),
                          .broker_pid = broker_.pid,
                          .agent_pid = agent_.pid,
                          .keeper_pid = keeper_.pid};
  report(to_json_line(ready));
  if (options_.print_ready) write_line(STDOUT_FILENO, to_json_line(ready));
}

void HostProcess::reap_children() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (info.si_pid == 0) return;
    strangers_.erase(info.si_pid);
    for (Role* role : {&keeper_, &broker_, &agent_}) {
      if (role->pid != info.si_pid) continue;
      on_lifeline(*role);  // its last words
      role->pid = -1;
      role->lifeline.close();
      on_exit(*role, describe_exit(info.si_code, info.si_status));
    }
  }
}

void HostProcess::on_exit(Role& role, const std::string& how) {
  if (phase_ == Phase::starting) {
    fail_start(exit_unavailable, "the " + role.name + " could not start: " + (role.said.empty() || role.ready ? "it " + how : role.said));
    return;
  }
  if (&role == &keeper_) {
    if (phase_ == Phase::running) {
      note("the keeper " + how + ": its procs were killed with it; ending the host");
      exit_code_ = exit_software;
    }
    if (phase_ == Phase::running || phase_ == Phase::stopping_agent || (phase_ == Phase::sweeping && !swept_)) sweep_ourselves();
    if (phase_ <= Phase::sweeping) enter(Phase::ending_agent);
  } else if (&role == &agent_) {
    if (phase_ == Phase::running) return on_agent_lost(how);
    if (phase_ <= Phase::stopping_agent) enter(Phase::sweeping);
    if (phase_ == Phase::ending_agent) enter(Phase::ending_broker);
  } else {
    if (phase_ == Phase::running) on_broker_lost(how);
    if (phase_ == Phase::ending_broker) enter(Phase::ended);
  }
}

// Says what becomes of the host.
bool HostProcess::may_restart(const Role& role, RestartBudget& budget, bool is_wanted, const std::string& how) const {
  const std::string lost = "the " + role.name + " " + (role.said.empty() || role.ready ? how : "failed: " + role.said);
  const std::string allowed = std::to_string(RestartBudget::allowed);
  const std::string seconds = std::to_string(RestartBudget::window.count());
  if (!is_wanted) {
    note(lost + ": ending the host, as configured");
    return false;
  }
  if (!budget.take(Clock::now())) {
    note(lost + ", and it was restarted " + allowed + " times within " + seconds + " s: ending the host");
    return false;
  }
  note(lost + ": restarting it (" + std::to_string(budget.used()) + " of " + allowed + " within " + seconds + " s)");
  return true;
}

void HostProcess::on_broker_lost(const std::string& how) {
  if (may_restart(broker_, broker_restarts_, !options_.end_on_broker_loss, how)) {
    const auto started = start_broker();
    if (started) return;
    say(started.error().detail() + ": ending the host");
  }
  end(exit_software, lost_launcher_grace);
}

// The keeper holds the procs: they do not notice.
void HostProcess::on_agent_lost(const std::string& how) {
  if (may_restart(agent_, agent_restarts_, !options_.end_on_agent_loss, how)) {
    const auto started = restart_agent();
    if (started) return;
    say(started.error().detail() + ": ending the host");
  }
  exit_code_ = exit_software;
  enter(Phase::sweeping);
}

void HostProcess::on_deadline() {
  deadline_.reset();
  if (phase_ == Phase::starting) {
    const Role& late = !keeper_.ready ? keeper_ : !broker_.ready ? broker_ : agent_;
    return fail_start(exit_unavailable,
                      "the " + late.name + " was not ready within " + std::to_string(std::chrono::seconds(start_limit).count()) + " s");
  }
  if (waited_for_ == nullptr || !waited_for_->alive()) return;
  if (!killed_waited_for_) {
    if (phase_ != Phase::stopping_agent || grace_ != 0ms) say("the " + waited_for_->name + " did not end in time: killing it");
    ::kill(waited_for_->pid, SIGKILL);
    killed_waited_for_ = true;
    deadline_ = Clock::now() + kill_limit;
    return;
  }
  say("the " + waited_for_->name + " (pid " + std::to_string(waited_for_->pid) + ") does not die: going on without it");
  waited_for_->pid = -1;
  on_exit(*waited_for_, "does not die");
}

// Asks a role for something that ends in its exit, which leads to the next phase.
void HostProcess::ask(Role& role, const std::string& message, std::chrono::milliseconds limit, Phase next) {
  if (!role.alive()) return enter(next);
  role.lifeline.send(message);
  waited_for_ = &role;
  killed_waited_for_ = false;
  deadline_ = Clock::now() + limit;
}

void HostProcess::enter(Phase phase) {
  phase_ = phase;
  deadline_.reset();
  switch (phase) {
    case Phase::stopping_agent:
      return ask(agent_, "stop " + std::to_string(grace_.count()), grace_ + (grace_ <= lost_launcher_grace ? 300ms : agent_slack),
                 Phase::sweeping);
    case Phase::sweeping: return ask(keeper_, "sweep", sweep_limit, Phase::ending_agent);
    case Phase::ending_agent: return ask(agent_, "stop 0", goodbye_limit, Phase::ending_broker);
    case Phase::ending_broker: return ask(broker_, "stop 0", goodbye_limit, Phase::ended);
    case Phase::starting:
    case Phase::running:
    case Phase::ended: return;
  }
}

void HostProcess::end(int exit_code, std::chrono::milliseconds grace) {
  if (exit_code_ == 0) exit_code_ = exit_code;
  grace_ = grace;
  enter(Phase::stopping_agent);
}

void HostProcess::fail_start(int exit_code, const std::string& why) {
  say(why);
  report(error_json_line(why));
  exit_code_ = exit_code;
  enter(Phase::sweeping);
}

// The keeper is dead: its procs got the kernel's parent-death signal, and everything below them is now ours.
void HostProcess::sweep_ourselves() {
  if (!cgroup_.empty()) os::kill_cgroup(cgroup_);
  os::Sweeper sweeper([this](pid_t pid) { return pid == broker_.pid || pid == agent_.pid || strangers_.contains(pid); });
  if (sweeper.run(own_sweep_limit)) return;
  std::string left;
  for (const pid_t pid : sweeper.survivors()) left += " " + std::to_string(pid);
  say("processes that do not die (state D?):" + left);
}

int HostProcess::finish() {
  for (Role* role : {&agent_, &broker_, &keeper_}) {
    if (role->alive()) ::kill(role->pid, SIGKILL);
    role->pid = -1;
  }
  sweep_ourselves();  // normally finds nothing, and that is the proof
  if (!cgroup_.empty()) {
    os::empty_cgroup(cgroup_, 500ms);
    if (!os::remove_cgroup_tree(cgroup_)) say("cannot remove " + cgroup_ + ": " + std::strerror(errno));
  }
  for (const std::string& directory : limit_directories()) {
    if (!os::clear_cgroup_tree(directory, 500ms)) say("cannot remove " + directory + ": " + std::strerror(errno));
  }
  os::come_back(50ms);
  if (!place_.base.empty()) os::clear_roles_leaf(place_.base);
  if (directory_) os::remove_run_directory(directory_->path, 100ms);
  return exit_code_;
}

void HostProcess::say(const std::string& line) const {
  write_line(STDERR_FILENO, "meshbus host: " + line + "\n");
}

// One write at its end, so that it is there or not, beside what the agent writes; one that agent has set aside meanwhile is as good.
void HostProcess::note(const std::string& line) const {
  say(line);
  if (!directory_) return;
  const UniqueFd file(::open((events_path() + ".jsonl").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  if (file) write_line(file.get(), role_event_line(std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec, line));
}

void HostProcess::report(const std::string& line) {
  if (!ready_fd_) return;
  write_line(ready_fd_.get(), line);
  ready_fd_.reset();
}

}  // namespace meshbus::warden

namespace meshbus {

int run_warden(const WardenOptions& options) {
  return warden::HostProcess(options).run();
}

}  // namespace meshbus

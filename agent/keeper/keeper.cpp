#include "agent/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "agent/os/host_place.h"
#include "agent/os/pid_namespace.h"
#include "agent/os/run_directory.h"
#include "common/base/clock_ns.h"
#include "common/base/os_error.h"

namespace meshbus::keeper {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto spawn_slice = 1ms;  // exits are looked at in between; a spawn takes about 0.3 ms
constexpr Clock::duration reap_pause = 50ms;
constexpr Clock::duration busy_chase_pause = 5ms;  // with births to come: several dead for one look
constexpr Clock::duration chase_pause_first = 200us;
constexpr Clock::duration chase_pause_last = 50ms;
constexpr std::size_t ends_per_cpu = 8;  // more only wait for each other
constexpr auto sysexit_os_error = 71;
constexpr int agent_ends_within = 1000;  // milliseconds

std::int64_t microseconds(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_usec;
}

Error failure(const char* call) {
  return {ErrorCode::io_error, "keeper: " + os_error(call)};
}

// More descriptors for us; the procs get what we had.
std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

}  // namespace

Keeper::Keeper(KeeperOptions options)
    : lifeline_(std::move(options.lifeline)),
      agent_(std::move(options.agent)),
      lock_(std::move(options.lock)),
      run_dir_(std::move(options.run_dir)),
      cgroup_(std::move(options.cgroup)),
      pid_namespace_(options.pid_namespace),
      mark_(options.mark),
      limits_(std::move(options.limits)),
      orphans_([this](pid_t pid) { return procs_.contains(pid); }),
      procs_per_wave_(ends_per_cpu * std::max<std::size_t>(std::thread::hardware_concurrency(), 1)) {}

Result<void> Keeper::set_up() {
  if (pid_namespace_) {
    if (auto settled = os::settle_in_pid_namespace(); !settled) return settled;
  }
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return fail(failure("prctl(PR_SET_CHILD_SUBREAPER)"));
  ::signal(SIGPIPE, SIG_IGN);  // a dead launcher's stderr must not take us along
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  by_default.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &by_default, nullptr);  // not ignored: the kernel would reap for us
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&handled, signal);
  if (::sigprocmask(SIG_SETMASK, &handled, nullptr) != 0) return fail(failure("sigprocmask"));
  signals_ = UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return fail(failure("signalfd"));
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail(failure("epoll_create1"));
  auto starter = ProcStarter::make(mark_, raise_descriptor_limit());
  if (!starter) return fail(starter.error());
  starter_ = std::make_unique<ProcStarter>(std::move(*starter));
  // So that what is counted and limited for the whole host is right in every containment.
  if (const std::string host = limits_.places().v2_path(); cgroup_.empty() && !host.empty()) {
    auto made = os::Cgroup::make(host, "unlimited");
    if (!made) return fail(made.error());
    birthplace_ = std::make_unique<os::Cgroup>(std::move(*made));
  }
  if (!watch(lifeline_.fd(), EPOLL_CTL_ADD, EPOLLIN, lifeline_source) || !watch(agent_.get(), EPOLL_CTL_ADD, EPOLLIN, agent_source) ||
      !watch(signals_.get(), EPOLL_CTL_ADD, EPOLLIN, signal_source)) {
    return fail(failure("epoll_ctl"));
  }
  return {};
}

int Keeper::run() {
  if (auto done = set_up(); !done) {
    std::fprintf(stderr, "meshbus-keeper: %s\n", done.error().detail().c_str());
    lifeline_.send("failed " + done.error().detail());
    return sysexit_os_error;
  }
  lifeline_.send("ready keeper");
  report(Replayed{});
  while (end_ == End::none) turn();
  return sweep_and_end();
}

bool Keeper::watch(int fd, int operation, std::uint32_t events, std::uint64_t source) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = source;
  return ::epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

int Keeper::wait_milliseconds() const {
  // Descriptors that were short, or the agent's socket that is full, say nothing when they are there again.
  if (replay_registry_.is_replaying() && !agent_wants_write_) return 10;
  if (!queue_.empty() && outbox_.size() < outbox_limit) return 0;
  if (dead_.empty() && !has_dead_child_ && asked_signals_.empty()) return -1;
  auto next = Clock::time_point::max();
  if (!dead_.empty() || has_dead_child_) next = dead_.empty() ? next_reap_ : next_chase_;
  if (!asked_signals_.empty()) next = std::min(next, next_wave_);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(static_cast<long>(left), 0, 100));
}

void Keeper::turn() {
  std::array<epoll_event, 128> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_milliseconds());
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t source = events[static_cast<std::size_t>(i)].data.u64;
    if (source == lifeline_source) {
      on_lifeline();
    } else if (source == agent_source) {
      on_agent();
    } else if (source == signal_source) {
      on_signals();
    } else if (source >= link_sources) {
      on_link(static_cast<pid_t>(source - link_sources));
    } else {
      on_pidfd(static_cast<pid_t>(source));
    }
  }
  if (end_ != End::none) return;
  signal_some();
  flush();  // exits first: what follows takes longer
  spawn_some();
  if (!dead_.empty() && Clock::now() >= next_chase_) chase_orphans();
  if (dead_.empty() && has_dead_child_ && Clock::now() >= next_reap_) reap_orphans();
  flush();
}

void Keeper::on_lifeline() {
  for (;;) {
    auto received = lifeline_.receive();
    if (received.ended) {
      end_ = End::warden_gone;
      return;
    }
    if (!received.text) return;
    const std::string_view word = os::parse_lifeline(*received.text).word;
    if (word == "sweep" || word == "stop") end_ = End::told;
    if (word == "ping") lifeline_.send("pong");
    if (word == "agent" && received.fd) adopt_agent(std::move(received.fd));
  }
}

void Keeper::on_signals() {
  std::array<signalfd_siginfo, 8> received;
  const ssize_t got = ::read(signals_.get(), received.data(), sizeof received);
  for (std::size_t i = 0; got > 0 && i < static_cast<std::size_t>(got) / sizeof received[0]; ++i) {
    if (received[i].ssi_signo == SIGTERM || received[i].ssi_signo == SIGINT) end_ = End::told;
    if (received[i].ssi_signo != SIGCHLD) continue;
    next_chase_ = std::min(next_chase_, chase_not_before_);
    has_dead_child_ = true;
  }
}

// A slice of time, not a number: spawning must not delay exits, whatever a spawn costs here.
void Keeper::spawn_some() {
  const auto until = Clock::now() + spawn_slice;
  while (!queue_.empty() && outbox_.size() < outbox_limit) {
    Queued queued = std::move(queue_.front());
    queue_.pop_front();
    start_one(std::move(queued));
    if (Clock::now() >= until) return;
  }
}

void Keeper::on_pidfd(pid_t pid) {
  const auto known = procs_.find(pid);
  if (known == procs_.end()) return;
  siginfo_t info{};
  const auto wait = [&](int options, rusage* usage) {
    return ::syscall(SYS_waitid, P_PIDFD, known->second.pidfd.get(), &info, options | WEXITED | WNOHANG | __WALL, usage);
  };
  // A pidfd may say so too early: when the main thread has ended alone, or another thread executes a program (before Linux 6.15).
  if (wait(WNOWAIT, nullptr) != 0 || info.si_pid == 0) return;
  // Dead but not reaped: pid and group are still its own.
  ::kill(-pid, SIGKILL);
  rusage usage{};
  if (wait(0, &usage) == 0 && info.si_pid != 0) bury(pid, info, usage);
}

// What a process of several procs says: which of them have ended.
bool Keeper::hear_link(Proc& proc) {
  return proc.shared->hear([this](Exit exit) {
    exit.ended_realtime_ns = clock_ns(CLOCK_REALTIME);
    exit.ended_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    report(exit);
    report(Gone{exit.id});  // what it has started belongs to the process
    pids_.erase(exit.id);
  });
}

void Keeper::on_link(pid_t pid) {
  const auto known = procs_.find(pid);
  if (known == procs_.end()) return;
  const bool goes_on = hear_link(known->second);
  if (known->second.shared->are_all_killed()) ::kill(-pid, SIGKILL);  // who is left was to be killed, and does not return
  if (goes_on) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, known->second.shared->fd(), nullptr);
  known->second.shared->close();
}

void Keeper::bury(pid_t pid, const siginfo_t& info, const rusage& usage) {
  const auto known = procs_.find(pid);
  if (known == procs_.end()) return;
  Proc& proc = known->second;
  Dead dead{proc.id, {}, {}};
  if (proc.shared) {
    hear_link(proc);
    for (const auto& member : proc.shared->living()) dead.procs.push_back(member.id);
    if (proc.shared->fd() >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, proc.shared->fd(), nullptr);
  } else {
    dead.procs.push_back(proc.id);
  }
  if (proc.wave == wave_ && wave_left_ > 0) --wave_left_;
  Exit exit;
  exit.signaled = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
  exit.core_dumped = info.si_code == CLD_DUMPED;
  exit.code = info.si_status;
  exit.ended_realtime_ns = clock_ns(CLOCK_REALTIME);
  exit.ended_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  exit.user_us = microseconds(usage.ru_utime);
  exit.system_us = microseconds(usage.ru_stime);
  exit.max_rss_kib = usage.ru_maxrss;
  const os::MemoryVerdict memory = limits_.memory_verdict(proc.id);
  exit.memory_kills = memory.kills;
  exit.memory_limit_hit = memory.by_own_limit;
  for (const auto id : dead.procs) {
    exit.id = id;
    report(exit);
    pids_.erase(id);
  }
  // The agent holds a copy of the descriptor: closing ours would not take it out of the epoll set.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, proc.pidfd.get(), nullptr);
  dead.mesh = std::move(proc.mesh);
  dead_.push_back(std::move(dead));
  procs_.erase(known);
}

// Orphans of a proc that lives and is no subreaper: they may end on their own. Those of dead procs are chased. Nobody waits for them, and a
// look goes through all children: a few in a second.
void Keeper::reap_orphans() {
  constexpr int most = 64;
  next_reap_ = Clock::now() + reap_pause;
  for (int i = 0; i < most; ++i) {
    siginfo_t info{};
    has_dead_child_ = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid != 0;
    // A proc: its pidfd says so before long.
    if (!has_dead_child_ || procs_.contains(info.si_pid)) return;
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG | __WALL);
  }
  next_reap_ = Clock::now();  // there are more
}

// A child of ours that is not a proc is an orphan, of a dead proc where procs are subreapers. Which one's cannot be told, so the dead
// are gone together, when a look finds no orphan. A look costs with the number of children: with nothing found it takes at most a fifth
// of our time; with orphans it follows their ends at once, and otherwise ever more slowly (state D).
void Keeper::chase_orphans() {
  const auto begin = Clock::now();
  const os::Sweeper::Round round = orphans_.round();
  const auto end = Clock::now();
  chase_pause_ = round.clean || round.reaped != 0 ? chase_pause_first : std::min<Clock::duration>(2 * chase_pause_, chase_pause_last);
  const auto rest = std::max<Clock::duration>(4 * (end - begin), queue_.empty() ? 0ms : busy_chase_pause);
  chase_not_before_ = round.clean ? end + rest : end;
  next_chase_ = round.clean ? chase_not_before_ : round.reaped != 0 ? end : end + chase_pause_;  // or earlier, by SIGCHLD
  if (!round.clean) return;
  for (const Dead& dead : dead_) {
    limits_.remove(dead.first);
    for (const auto id : dead.procs) report(Gone{id});
    leave_mesh(dead.mesh);
  }
  dead_.clear();
}

// Kills everything and proves it by ECHILD. No deadline of its own: what is in state D dies when it wakes, and the warden, or whoever
// started us, decides how long that may take.
int Keeper::sweep_and_end() {
  queue_.clear();
  queued_.clear();
  // That all are killed now is nobody's news: whoever started the host hears that its warden is gone.
  UniqueFd unheard = end_ == End::warden_gone ? std::move(agent_) : UniqueFd();
  if (!cgroup_.empty()) os::kill_cgroup(cgroup_);
  if (pid_namespace_) ::kill(-1, SIGKILL);  // everything but us
  os::Sweeper everything({}, [this](const siginfo_t& info, const rusage& usage) { bury(info.si_pid, info, usage); });
  while (!everything.run(100ms)) {
    if (end_ == End::told && lifeline_.receive().ended) end_ = End::warden_gone;
  }
  limits_.remove_all();
  if (!cgroup_.empty()) {
    os::empty_cgroup(cgroup_, 500ms);
    os::remove_cgroup_tree(cgroup_);
  }
  for (const Dead& dead : dead_) {
    for (const auto id : dead.procs) report(Gone{id});
  }
  flush();
  lifeline_.send("swept");
  if (end_ == End::told && lifeline_.receive().ended) end_ = End::warden_gone;
  // The agent ends with the warden, too. It goes first: it may write in the run directory, and would take us for lost.
  if (pollfd agent{unheard.get(), 0, 0}; unheard) ::poll(&agent, 1, agent_ends_within);
  if (end_ == End::warden_gone && !run_dir_.empty()) {
    // Nobody else is left to remove them.
    os::leave_pids_cgroup(limits_.places().at(os::Controller::pids).path);
    for (const std::string& directory : limits_.places().directories()) os::clear_cgroup_tree(directory, 500ms);
    os::come_back(500ms);
    os::remove_run_directory(run_dir_, 1000ms);
  }
  return 0;
}

}  // namespace meshbus::keeper

#include "agent/keeper/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

#include "agent/os/cgroup_placement.h"
#include "agent/os/pid_namespace.h"
#include "agent/os/run_directory.h"
#include "common/base/clock_ns.h"
#include "common/base/os_error.h"

namespace meshbus::keeper {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kSpawnSlice = 1ms;       // exits are handled in between; a spawn takes about 0.3 ms
constexpr std::size_t kEndsPerCpu = 8;  // more only wait for each other
constexpr int kSysexitOsError = 71;
constexpr int kAgentEndsWithin = 1000;  // milliseconds
constexpr int kAgentPacketsPerTurn = 4;
constexpr int kOrphansPerReap = 64;

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

// Blocks the signals that the keeper handles. Returns their descriptor; empty with errno.
UniqueFd take_signals() {
  ::signal(SIGPIPE, SIG_IGN);  // a dead launcher's stderr must not take us along
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  by_default.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &by_default, nullptr);  // not ignored: the kernel would reap for us
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&handled, signal);
  if (::sigprocmask(SIG_SETMASK, &handled, nullptr) != 0) return {};
  return UniqueFd(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

Keeper::Keeper(KeeperOptions options)
    : options_(std::move(options)),
      lifeline_(std::move(options_.lifeline)),
      cgroups_(options_.cgroup, options_.limits),
      agent_(events_, agent_source,
             [this](pid_t pid) {
               const auto* const process = table_.find(pid);
               return process == nullptr ? -1 : process->pidfd.get();
             }),
      births_(agent_, events_, table_, cgroups_),
      templates_(births_, events_, table_, cgroups_),
      procs_(table_, agent_,
             kEndsPerCpu * std::max<std::size_t>(std::thread::hardware_concurrency(), 1)),
      orphans_([this](pid_t pid) { return table_.contains(pid) || templates_.is_unborn(pid); }) {}

Result<void> Keeper::prepare() {
  if (options_.pid_namespace) {
    if (auto settled = os::settle_in_pid_namespace(); !settled) return settled;
  }
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    return fail(failure("prctl(PR_SET_CHILD_SUBREAPER)"));
  signals_ = take_signals();
  if (!signals_) return fail(failure("signalfd"));
  if (!events_.open()) return fail(failure("epoll_create1"));
  // Only a host of root has it.
  UniqueFd bus_folder;
  if (!options_.run_dir.empty())
    bus_folder.reset(::open((options_.run_dir + "/" + os::kBusFolder).c_str(),
                            O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  auto starter = ProcStarter::make({.process_tag = options_.process_tag,
                                    .nofile = raise_descriptor_limit(),
                                    .oom_score = options_.oom_score},
                                   std::move(bus_folder));
  if (!starter) return fail(starter.error());
  starter_.emplace(std::move(*starter), cgroups_);
  if (auto prepared = cgroups_.prepare(); !prepared) return prepared;
  if (!events_.add(lifeline_.fd(), lifeline_source) || !agent_.connect(std::move(options_.agent)) ||
      !events_.add(signals_.get(), signal_source)) {
    return fail(failure("epoll_ctl"));
  }
  return {};
}

int Keeper::run() {
  if (auto done = prepare(); !done) {
    std::fprintf(stderr, "meshbus-keeper: %s\n", done.error().detail().c_str());
    lifeline_.send("failed " + done.error().detail());
    return kSysexitOsError;
  }
  if (!options_.release.empty()) lifeline_.send("release " + options_.release);
  lifeline_.send("ready keeper");
  agent_.report_replayed();
  while (end_ == End::none) turn();
  return sweep_and_end();
}

int Keeper::wait_milliseconds() const {
  if (agent_.is_short_of_descriptors()) return 10;
  if (!queue_.empty() && agent_.has_room()) return 0;
  auto next = Clock::time_point::max();
  if (table_.has_dead())
    next = pace_.next_look();
  else if (pace_.has_dead_child())
    next = pace_.next_reap();
  next = std::min(next, procs_.due());
  next = std::min(next, templates_.due());
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(static_cast<long>(left), 0, 100));
}

void Keeper::turn() {
  std::array<epoll_event, 128> events;
  const int ready = ::epoll_wait(events_.fd(), events.data(), static_cast<int>(events.size()),
                                 wait_milliseconds());
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t source = events[static_cast<std::size_t>(i)].data.u64;
    if (source == lifeline_source) {
      on_lifeline();
    } else if (source == agent_source) {
      on_agent();
    } else if (source == signal_source) {
      on_signals();
    } else if (source >= Templates::kSources) {
      templates_.on_event(static_cast<pid_t>(source - Templates::kSources), *starter_);
    } else if (source >= Births::kLinkSources) {
      on_link(static_cast<pid_t>(source - Births::kLinkSources));
    } else {
      on_pidfd(static_cast<pid_t>(source));
    }
  }
  if (end_ != End::none) return;
  procs_.advance(Clock::now());
  // An end and that nothing is left of it are one packet, and for their readers one turn.
  if (queue_.empty() && pace_.is_short()) look_for_orphans();
  flush();  // exits first: what follows takes longer
  spawn_some();
  templates_.end_idle(Clock::now());
  look_for_orphans();
  if (!table_.has_dead() && pace_.has_dead_child() && Clock::now() >= pace_.next_reap())
    reap_orphans();
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
    if (word != "agent" || !received.fd) continue;
    // The last messages of the agent before count. It is dead, so they end.
    while (agent_.receive(handlers())) {
    }
    agent_.drop();
    agent_.adopt(std::move(received.fd));
  }
}

void Keeper::on_signals() {
  std::array<signalfd_siginfo, 8> received;
  const ssize_t got = ::read(signals_.get(), received.data(), sizeof received);
  const std::size_t count = got > 0 ? static_cast<std::size_t>(got) / sizeof received[0] : 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (received[i].ssi_signo == SIGTERM || received[i].ssi_signo == SIGINT) end_ = End::told;
    if (received[i].ssi_signo == SIGCHLD) pace_.on_child_ended();
  }
}

RequestHandlers Keeper::handlers() {
  return {.on_spawn = [this](os::SpawnBatch batch) { on_spawn(std::move(batch)); },
          .on_signal = [this](const Signal& signal) { on_signal(signal); },
          .on_hold = [this](const Hold& hold) { procs_.add(hold); },
          .on_mark = [this](Mark mark) { procs_.add(mark); },
          .on_kill_mesh = [this](const KillMesh& request) { on_kill_mesh(request); },
          .on_forget = [this](const Forget& proc) { agent_.forget(proc.id); },
          .on_close_input = [this](const CloseInput& proc) { agent_.close_input(proc.id); }};
}

void Keeper::on_agent() {
  for (int i = 0; i < kAgentPacketsPerTurn && agent_.receive(handlers()); ++i) {
  }
}

void Keeper::on_spawn(os::SpawnBatch batch) {
  const auto is_known = [this](std::uint64_t id) {
    return agent_.knows(id) || templates_.knows(id);
  };
  for (const auto id : queue_.add(std::move(batch), is_known)) {
    births_.refuse(
        id, {os::SpawnStage::spec, EINVAL, "the process that it was to share was started before"});
  }
}

void Keeper::on_signal(const Signal& signal) {
  if (table_.find_pid(signal.id) > 0) return procs_.add(signal);
  if (ends_a_process(signal.signal) && (queue_.cancel(signal.id) || templates_.cancel(signal.id)))
    births_.refuse(signal.id, {os::SpawnStage::cancelled, ECANCELED, {}});
}

void Keeper::on_kill_mesh(const KillMesh& request) {
  for (const auto id : queue_.cancel_mesh(request.mesh))
    births_.refuse(id, {os::SpawnStage::cancelled, ECANCELED, {}});
  for (const auto id : templates_.cancel_mesh(request.mesh))
    births_.refuse(id, {os::SpawnStage::cancelled, ECANCELED, {}});
  cgroups_.kill(request.mesh);
  table_.for_each_of_mesh(request.mesh, [](pid_t pid) { ::kill(-pid, SIGKILL); });
}

// A slice of time, not a number: spawning must not delay exits, however long a spawn takes here.
void Keeper::spawn_some() {
  const auto until = Clock::now() + kSpawnSlice;
  while (!queue_.empty() && agent_.has_room()) {
    start_one(queue_.take());
    if (Clock::now() >= until) return;
  }
}

void Keeper::start_one(QueuedProcess queued) {
  if (queued.prepared->spec().is_template) return templates_.start(std::move(queued), *starter_);
  if (const pid_t pid = queued.beside != 0 ? table_.find_pid(queued.beside) : -1; pid > 0) {
    auto* const process = table_.find(pid);
    if (process != nullptr && process->shared && process->shared->takes(queued.procs.size()))
      return births_.join(ProcessStarter::prepare_to_join(queued, pid, process->pidfd.get()),
                          *process);
  }
  births_.enter(starter_->start(queued), queued.prepared->spec().mesh);
}

void Keeper::on_pidfd(pid_t pid) {
  const auto* const process = table_.find(pid);
  if (process == nullptr) return;
  siginfo_t info{};
  const auto wait = [&](int options, rusage* usage) {
    return ::syscall(SYS_waitid, P_PIDFD, process->pidfd.get(), &info,
                     options | WEXITED | WNOHANG | __WALL, usage);
  };
  // A pidfd may be readable too early: when the main thread has ended alone, or another thread
  // executes a program (before Linux 6.15).
  if (wait(WNOWAIT, nullptr) != 0 || info.si_pid == 0) return;
  // Dead but not reaped: pid and group are still its own.
  ::kill(-pid, SIGKILL);
  rusage usage{};
  if (wait(0, &usage) == 0 && info.si_pid != 0) bury(pid, info, usage);
}

// What a process of several procs tells: which of them have ended. False: it tells no more.
bool Keeper::receive_ends(ProcTable::Process& process) {
  return process.shared->hear([this](Exit exit) {
    exit.ended_realtime_ns = clock_ns(CLOCK_REALTIME);
    exit.ended_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    agent_.report(exit);
    agent_.report(Gone{exit.id});  // what it has started belongs to the process
    table_.end_proc(exit.id);
  });
}

void Keeper::on_link(pid_t pid) {
  auto* const process = table_.find(pid);
  if (process == nullptr) return;
  const bool goes_on = receive_ends(*process);
  // Each proc that is left in this process was told to die and does not: kill the process.
  if (process->shared->are_all_killed()) ::kill(-pid, SIGKILL);
  if (goes_on) return;
  events_.remove(process->shared->fd());
  process->shared->close();
}

void Keeper::bury(pid_t pid, const siginfo_t& info, const rusage& usage) {
  auto* const process = table_.find(pid);
  if (process == nullptr) return;
  if (process->shared) {
    receive_ends(*process);
    if (process->shared->fd() >= 0) events_.remove(process->shared->fd());
  }
  // The agent holds a copy of the descriptor: a close alone would leave it in the epoll set.
  events_.remove(process->pidfd.get());
  procs_.on_end(*process);
  Exit exit;
  exit.signaled = info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
  exit.core_dumped = info.si_code == CLD_DUMPED;
  exit.code = info.si_status;
  exit.ended_realtime_ns = clock_ns(CLOCK_REALTIME);
  exit.ended_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  exit.user_us = microseconds(usage.ru_utime);
  exit.system_us = microseconds(usage.ru_stime);
  exit.max_rss_kib = usage.ru_maxrss;
  const os::MemoryVerdict memory = cgroups_.memory_verdict(process->first);
  exit.memory_kills = memory.kills;
  exit.memory_limit_hit = memory.by_own_limit;
  const ProcTable::Dead& dead = table_.bury(pid);
  for (const auto id : dead.procs) {
    exit.id = id;
    agent_.report(exit);
  }
  const std::string mesh = dead.mesh;
  const std::string how = (exit.signaled ? "signal " : "exit code ") + std::to_string(exit.code);
  for (QueuedProcess& again : templates_.on_end(pid, mesh, how)) {
    if (end_ == End::none) templates_.start(std::move(again), *starter_);
  }
}

// Orphans of a living proc that is no subreaper: they may end on their own. Those of dead procs are
// chased. Reaping them is not urgent, and a look goes through all children: a few in a second.
void Keeper::reap_orphans() {
  const auto now = Clock::now();
  for (int i = 0; i < kOrphansPerReap; ++i) {
    siginfo_t info{};
    const bool has_dead =
        ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid != 0;
    // A proc's pidfd is readable before long.
    if (!has_dead || table_.contains(info.si_pid) || templates_.is_unborn(info.si_pid))
      return pace_.after_reap(now, has_dead, false);
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG | __WALL);
  }
  pace_.after_reap(Clock::now(), true, true);
}

void Keeper::look_for_orphans() {
  if (table_.has_dead() && Clock::now() >= pace_.next_look()) chase_orphans();
}

// A child of ours that is not a proc is an orphan, of a dead proc where procs are subreapers. Which
// proc's cannot be told, so all dead procs are reported empty when a look finds no orphan.
void Keeper::chase_orphans() {
  const auto begin = Clock::now();
  const os::Sweeper::Round round = orphans_.round();
  pace_.after_look(begin, Clock::now(), round.clean, round.reaped != 0, !queue_.empty());
  if (!round.clean) return;
  for (const ProcTable::Dead& dead : table_.take_dead()) {
    cgroups_.remove_groups(dead.first);
    for (const auto id : dead.procs) agent_.report(Gone{id});
    cgroups_.leave(dead.mesh);
  }
}

void Keeper::flush() {
  agent_.flush(!queue_.empty() || procs_.is_waiting());
}

// Kills everything and proves it by ECHILD. There is no deadline here: a process in state D dies
// when it wakes, and the warden decides how long that may take.
int Keeper::sweep_and_end() {
  queue_.clear();
  // Without a warden the agent tells of one thing that befell all procs, and not of each of them.
  UniqueFd unheard = end_ == End::warden_gone ? agent_.release() : UniqueFd();
  cgroups_.kill_all();
  if (options_.pid_namespace) ::kill(-1, SIGKILL);  // everything but us
  const auto on_reaped = [this](const siginfo_t& info, const rusage& usage) {
    bury(info.si_pid, info, usage);
  };
  os::Sweeper everything({}, on_reaped);
  while (!everything.run(100ms)) {
    if (end_ == End::told && lifeline_.receive().ended) end_ = End::warden_gone;
  }
  cgroups_.remove_all();
  for (const ProcTable::Dead& dead : table_.take_dead()) {
    for (const auto id : dead.procs) agent_.report(Gone{id});
  }
  agent_.flush(false);
  lifeline_.send("swept");
  if (end_ == End::told && lifeline_.receive().ended) end_ = End::warden_gone;
  // This tells the agent that everything is dead. It has yet to tell others, and goes first: it may
  // write in the run directory.
  if (pollfd agent{unheard.get(), 0, 0}; unheard) {
    ::shutdown(unheard.get(), SHUT_WR);
    ::poll(&agent, 1, kAgentEndsWithin);
  }
  if (end_ == End::warden_gone && !options_.run_dir.empty()) remove_host();
  return 0;
}

// For when the warden is dead: no other process is left to remove these.
void Keeper::remove_host() {
  const os::LimitPlaces& places = cgroups_.limit_places();
  os::leave_pids_cgroup(places.at(os::Controller::pids).path);
  for (const std::string& directory : places.directories()) os::clear_cgroup_tree(directory, 500ms);
  os::leave_roles_leaf(500ms);
  os::remove_run_directory(options_.run_dir, 1000ms);
}

}  // namespace meshbus::keeper

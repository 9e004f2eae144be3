#include "agent/keeper/templates.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <utility>

#include "common/base/clock_ns.h"

namespace meshbus::keeper {

namespace {

constexpr unsigned kMostAttempts = 2;
constexpr int kMostReportsPerTurn = 16;

// What the kernel says about a pidfd; -1: it is none, or its process is reaped.
pid_t pid_of(int pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd));
  for (std::string word; info >> word;) {
    if (word != "Pid:") continue;
    pid_t pid = -1;
    return info >> pid ? pid : -1;
  }
  return -1;
}

bool is_child(int pidfd) {
  siginfo_t info{};
  return ::syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL,
                   nullptr) == 0;
}

}  // namespace

void Templates::start(QueuedProcess queued, ProcessStarter& starter) {
  RankTemplate* one = find(queued.prepared->spec().mesh);
  if (one == nullptr) one = add(queued, starter);
  if (one == nullptr) return;
  one->add(std::move(queued));
  ask(*one, starter);
}

RankTemplate* Templates::add(const QueuedProcess& queued, ProcessStarter& starter) {
  const std::string& mesh = queued.prepared->spec().mesh;
  auto started = starter.start_template(*queued.prepared);
  if (!started) {
    refuse(queued, started.error());
    return nullptr;
  }
  const auto source = static_cast<std::uint64_t>(started->pid);
  if (!events_.add(started->pidfd.get(), source) ||
      !events_.add(started->link.get(), kSources + source)) {
    const int error = errno;
    end_unreported(started->pid);
    cgroups_.leave(mesh);
    refuse(queued, {os::SpawnStage::descriptors, error, "watching the template"});
    return nullptr;
  }
  int copies = 0;  // of a template that has died
  table_.for_each_of_mesh(mesh, [&copies](pid_t) { ++copies; });
  table_.add(started->pid, {.pidfd = std::move(started->pidfd), .mesh = mesh, .is_template = true},
             {});
  RankTemplate& one = all_.emplace_back(mesh, started->pid, std::move(started->link));
  one.count(copies);
  return &one;
}

void Templates::ask(RankTemplate& one, ProcessStarter& starter) {
  while (auto queued = one.next()) {
    ++queued->attempts;
    auto copy = starter.ask_for_copy(*queued, one.fd());
    if (copy) return one.begin({std::move(*queued), std::move(copy->birth), std::move(copy->go)});
    refuse(*queued, copy.error());
  }
}

void Templates::on_event(pid_t pid, ProcessStarter& starter) {
  const auto one = std::find_if(all_.begin(), all_.end(),
                                [&](const RankTemplate& each) { return each.pid() == pid; });
  if (one == all_.end()) return;
  for (int i = 0; i < kMostReportsPerTurn; ++i) {
    RankTemplate::Said said = one->hear();
    switch (said.kind) {
      case RankTemplate::Said::Kind::nothing: return;
      case RankTemplate::Said::Kind::ready: break;
      case RankTemplate::Said::Kind::born: enter(*one, std::move(said.pidfd)); break;
      case RankTemplate::Said::Kind::failed:
        one->set_reason(std::move(said.reason));
        [[fallthrough]];
      case RankTemplate::Said::Kind::closed:
        events_.remove(one->fd());
        kill(*one);
        return;
    }
    ask(*one, starter);
  }
}

// A template is a program of the user: what it claims is looked up.
void Templates::enter(RankTemplate& one, UniqueFd pidfd) {
  auto flight = one.land();
  if (!flight) return;
  const pid_t pid = pid_of(pidfd.get());
  ProcessStarter::Outcome outcome;
  Birth& birth = outcome.births.emplace_back(std::move(flight->birth));
  if (pid <= 0 || table_.contains(pid) || !is_child(pidfd.get()) || ::getpgid(pid) != one.pid()) {
    outcome.births = failed_births(
        {birth.id}, {os::SpawnStage::copy, ECHILD, "what the template calls a copy of itself"});
  } else {
    birth.pid = pid;
    birth.started_realtime_ns = clock_ns(CLOCK_REALTIME);
    birth.started_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    birth.pidfd = UniqueFd(::fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 3));
    outcome.pidfd = std::move(pidfd);
  }
  // The cgroup is there: the template is in it, or it is the host's.
  [[maybe_unused]] const auto joined = cgroups_.join(one.mesh());
  if (!births_.enter(std::move(outcome), one.mesh())) return;
  one.count(1);
  const char go = 1;
  // A copy that is dead already is reported by its pidfd.
  [[maybe_unused]] const auto written = ::write(flight->go.get(), &go, 1);
}

std::vector<QueuedProcess> Templates::on_end(pid_t pid, const std::string& mesh,
                                             const std::string& how) {
  RankTemplate* const one = find(mesh);
  if (one == nullptr) return {};
  if (one->pid() != pid) {
    one->count(-1);
    return {};
  }
  events_.remove(one->fd());
  auto waiting = one->take_all();
  const bool is_to_blame = !one->is_ready() || !one->reason().empty();
  const std::string reason = one->reason().empty() ? "the template ended: " + how : one->reason();
  all_.remove_if([&](const RankTemplate& each) { return each.pid() == pid; });
  std::vector<QueuedProcess> again;
  for (QueuedProcess& queued : waiting) {
    if (queued.attempts > 0) cgroups_.remove_groups(queued.procs.front().id);
    if (is_to_blame || queued.attempts >= kMostAttempts)
      refuse(queued, {os::SpawnStage::copy, 0, reason});
    else
      again.push_back(std::move(queued));
  }
  return again;
}

bool Templates::knows(std::uint64_t id) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const RankTemplate& each) { return each.knows(id); });
}

bool Templates::cancel(std::uint64_t id) {
  for (RankTemplate& each : all_) {
    const bool was_asked = each.is_asked_for(id);
    if (!each.cancel(id)) continue;
    cgroups_.remove_groups(id);
    // What hangs in it would keep the others from theirs.
    if (was_asked) kill(each);
    return true;
  }
  return false;
}

std::vector<std::uint64_t> Templates::cancel_mesh(const std::string& mesh) {
  std::vector<std::uint64_t> cancelled;
  RankTemplate* const one = find(mesh);
  if (one == nullptr) return cancelled;
  for (const QueuedProcess& queued : one->take_all()) {
    for (const os::ProcSpec& proc : queued.procs) {
      cgroups_.remove_groups(proc.id);
      cancelled.push_back(proc.id);
    }
  }
  return cancelled;
}

bool Templates::is_unborn(pid_t pid) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const RankTemplate& each) { return each.is_unborn(pid); });
}

void Templates::end_idle(Clock::time_point now) {
  for (const RankTemplate& each : all_) {
    const auto expiry = each.expiry();
    if (expiry && *expiry <= now) kill(each);
  }
}

Templates::Clock::time_point Templates::due() const {
  auto first = Clock::time_point::max();
  for (const RankTemplate& each : all_) {
    if (const auto expiry = each.expiry()) first = std::min(first, *expiry);
  }
  return first;
}

RankTemplate* Templates::find(const std::string& mesh) {
  const auto found = std::find_if(all_.begin(), all_.end(),
                                  [&](const RankTemplate& each) { return each.mesh() == mesh; });
  return found == all_.end() ? nullptr : &*found;
}

// Not reaped, so the number is its own. A copy that was not told to us yet is in its group.
void Templates::kill(const RankTemplate& one) {
  ::kill(-one.pid(), SIGKILL);
}

void Templates::refuse(const QueuedProcess& queued, const os::SpawnFailure& failure) {
  for (const os::ProcSpec& proc : queued.procs) births_.refuse(proc.id, failure);
}

}  // namespace meshbus::keeper

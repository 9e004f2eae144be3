#include "agent/host/lifecycle/launch_monitor.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>

#include "agent/host/model/exit_report.h"
#include "agent/host/model/real_time.h"
#include "agent/os/process_table.h"
#include "common/base/log.h"
#include "common/base/quantity.h"

namespace meshbus::host {
namespace {

/// Whether the command cannot be executed, or this host cannot start anything (spec 12.2 tells them
/// apart).
bool is_about_the_file(os::SpawnStage stage) {
  using Stage = os::SpawnStage;
  return stage == Stage::lookup || stage == Stage::exec || stage == Stage::interpreter;
}

/// Alive, and kept from running by SIGSTOP or a debugger.
bool is_stopped(const Proc& proc) {
  const auto pid = static_cast<pid_t>(proc.state.to_wire().pid());
  const auto process = pid > 0 ? os::read_process(pid) : std::nullopt;
  return process && (process->state == 'T' || process->state == 't');
}

/// The number of a process as this one sees it; 0 when it is gone.
pid_t pid_of(const UniqueFd& pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  pid_t pid = 0;
  for (std::string word; info >> word;) {
    if (word == "Pid:" && info >> pid) break;
  }
  return std::max(pid, 0);
}

/// A proc's own account of a time, when that is possible; otherwise 0.
std::int64_t past(std::int64_t time_ns) {
  return time_ns > 0 && time_ns <= now_ns() ? time_ns : 0;
}

}  // namespace

LaunchMonitor::~LaunchMonitor() {
  for (const auto timer : timers_) reactor_.cancel(timer);
}

void LaunchMonitor::limit(const std::shared_ptr<const Assignment>& assignment) {
  if (assignment->spec.ready_limit.count() == 0) return;
  const auto timer = std::make_shared<Reactor::TimerId>();
  *timer = reactor_.after(assignment->spec.ready_limit, [this, assignment, timer] {
    timers_.erase(*timer);
    check(*assignment);
  });
  timers_.insert(*timer);
}

void LaunchMonitor::on_birth(keeper::Birth birth) {
  Proc* proc = table_.find_id(birth.id);
  if (proc == nullptr) return on_stray(birth);
  if (birth.failure) return on_failed_birth(*proc, *birth.failure);
  const bool is_known = !proc->launch.on_born();
  if (is_known && proc->exit.is_reported()) return;
  if (proc->has_ended() && !is_known) return ending_.kill_unwanted(*proc);
  outputs_.attach(*proc, std::move(birth.stdout_pipe), std::move(birth.stderr_pipe));
  inputs_.attach(*proc, std::move(birth.stdin_pipe));
  if (is_known) return;  // another agent has told of it
  if (options_.own_pid_namespace) {
    // For people: what they see on this machine. A process that has ended already has no such
    // number any more.
    if (const pid_t pid = pid_of(birth.pidfd); pid != 0) birth.pid = pid;
  }
  proc->state.on_started(static_cast<std::uint32_t>(birth.pid), birth.started_realtime_ns);
  proc->launch.on_exec(birth.spawned_realtime_ns, birth.started_realtime_ns);
  table_.publish(*proc);
  const bool is_up = proc->mesh.spec.kind == wire::ProcKind::plain || proc->launch.has_said_ready();
  if (ending_.on_born(*proc) && is_up) become_ready(*proc);
}

void LaunchMonitor::on_failed_birth(Proc& proc, const os::SpawnFailure& failure) {
  if (proc.has_ended()) return keeper_.forget({proc.id});
  const bool is_cancelled =
      failure.stage == os::SpawnStage::cancelled && proc.state.is_stop_asked();
  if (is_cancelled && !proc.exit.failure()) return ending_.cancel(proc);
  const bool is_file = is_about_the_file(failure.stage);
  const auto& program = proc.mesh.spec.command.program;
  ending_.fail(proc, {.code = is_file ? wire::ErrorCode::exec_failed : wire::ErrorCode::io_error,
                      .os_error = failure.error,
                      .text = describe_spawn_failure(failure, program, options_.host),
                      .cause = is_file ? wire::Cause::exec_failed : wire::Cause::spawn_failed});
}

void LaunchMonitor::on_stray(const keeper::Birth& birth) {
  if (birth.failure) return keeper_.forget({birth.id});
  log::error("process " + std::to_string(birth.pid) +
             " belongs to no proc that this agent knows; it is killed");
  const auto sent = keeper_.signal({.id = birth.id, .signal = SIGKILL, .group = true});
  if (!sent) log::warn("SIGKILL: " + sent.error().to_string());
}

void LaunchMonitor::on_said_ready(Proc& proc, std::int64_t connected_ns, std::int64_t hello_ns) {
  if (!proc.launch.on_said_ready(past(connected_ns), past(hello_ns))) return;
  table_.touch(proc);
  if (proc.stop.termination() == nullptr) become_ready(proc);
}

void LaunchMonitor::become_ready(Proc& proc) {
  if (!proc.state.on_ready()) return;
  proc.launch.on_ready(now_ns());
  table_.publish(proc);
  if (on_ready_) on_ready_(proc);
}

void LaunchMonitor::check(const Assignment& assignment) {
  // By name: the mesh may have been forgotten meanwhile.
  Mesh* mesh = table_.find_mesh(assignment.spec.mesh.to_string());
  if (mesh == nullptr) return;
  const auto limit = assignment.spec.ready_limit;
  for (const RankBlock& block : assignment.spec.create_ranks) {
    for (auto entry = mesh->procs.lower_bound(block.begin);
         entry != mesh->procs.end() && entry->first < block.end; ++entry) {
      Proc& proc = *entry->second;
      // A rank that was restarted, or that another request asked for, has a limit of its own.
      if (proc.launch.requested_at() + limit > reactor_.now()) continue;
      // A stop that is under way has limits of its own, too.
      if (proc.state.state() < wire::ProcState::ready && proc.stop.termination() == nullptr)
        fail_unready(proc, limit);
    }
  }
}

void LaunchMonitor::fail_unready(Proc& proc, std::chrono::milliseconds limit) {
  const auto progress = proc.launch.progress();
  std::string stage = "exec'd, no hello from it yet (a mesh program calls bootstrap() first)";
  if (progress == SpawnProgress::queued) stage = "queued, waits for its turn to be started";
  if (progress == SpawnProgress::asked) stage = "spawned, not yet exec'd";
  Failure failure{.code = wire::ErrorCode::timeout,
                  .text = "not ready within " + duration_to_text(limit) + "; stage: " + stage,
                  .cause = wire::Cause::not_ready};
  if (is_stopped(proc)) {
    failure.text += "; it is frozen: stopped by a signal (state T)";
    failure.cause = wire::Cause::frozen;
  }
  if (progress == SpawnProgress::queued) {
    ending_.fail(proc, std::move(failure));
  } else {
    ending_.kill_as_failed(proc, std::move(failure));
  }
}

}  // namespace meshbus::host

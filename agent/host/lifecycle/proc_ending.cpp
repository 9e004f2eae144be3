#include "agent/host/lifecycle/proc_ending.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "agent/host/model/exit_report.h"
#include "agent/host/model/real_time.h"
#include "agent/host/output/log_streams.h"
#include "agent/os/limit_places.h"
#include "common/base/log.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

/// From the exit of a process to its exit report, at most (spec 4.9).
constexpr auto kDrainLimit = 100ms;
/// Ends of processes of several procs that are remembered: as many as can end within that time, or
/// nearly.
constexpr std::size_t kSharedEnds = 256;

std::string name_of(const Proc& proc) {
  return "rank " + std::to_string(proc.rank()) + " of " + proc.mesh.name;
}

/// A mesh proc that has done nothing of what it was started for, and calls that a success.
/// bootstrap() returns when the agent has acknowledged ProcReady, so the end of a mesh program that
/// was up cannot overtake its hello.
bool has_left_before_hello(const Proc& proc) {
  return proc.mesh.spec.kind == wire::ProcKind::mesh && !proc.said_ready &&
         proc.state.state() == wire::ProcState::running && !proc.state.is_stop_asked() &&
         !proc.end->signaled && proc.end->code == 0;
}

EndFacts facts_of(const Proc& proc) {
  EndFacts facts;
  facts.sent_signals = proc.sent_signals;
  facts.cpu_time = std::chrono::microseconds(proc.usage.user_us + proc.usage.system_us);
  rlimit inherited{};
  if (::getrlimit(RLIMIT_CPU, &inherited) == 0) {
    facts.cpu_soft = inherited.rlim_cur;
    facts.cpu_hard = inherited.rlim_max;
  }
  for (const auto& limit : proc.mesh.spec.command.settings.limits) {
    if (limit.resource != RLIMIT_CPU) continue;
    facts.cpu_soft = limit.soft;
    facts.cpu_hard = limit.hard;
  }
  facts.memory_limit =
      keeper::words_of(proc.mesh.spec.command.settings.group, keeper::Controller::memory);
  facts.memory_kills = proc.usage.memory_kills;
  facts.memory_limit_hit = proc.usage.memory_limit_hit;
  return facts;
}

}  // namespace

void ProcEnding::stop(Mesh& mesh, const StopOrder& order) {
  for (const auto& [rank, proc] : mesh.procs) stop(*proc, order);
}

void ProcEnding::stop(Proc& proc, const StopOrder& order) {
  if (proc.has_ended()) return;
  if (proc.termination) {
    proc.termination->shorten(reactor_.now(), order.grace);
    return run(proc);
  }
  proc.stopped_by = order.requester;
  proc.stop_reason = order.reason;
  proc.stop_cause = order.cause;
  proc.because = order.because;
  if (proc.progress == SpawnProgress::queued) {
    proc.state.on_stop(wire::StopStep::asked);
    publish(proc);
    return cancel(proc);
  }
  begin(
      proc, order.grace,
      proc.mesh.spec.kind == wire::ProcKind::mesh && proc.state.state() == wire::ProcState::ready);
}

void ProcEnding::kill_as_failed(Proc& proc, Failure failure) {
  proc.failure = std::move(failure);
  begin(proc, 0ms, false);
}

void ProcEnding::fail(Proc& proc, Failure failure) {
  if (!proc.failure) proc.failure = std::move(failure);
  if (proc.progress != SpawnProgress::born) proc.progress = SpawnProgress::none;
  proc.assignment.reset();
  if (proc.state.on_failed(now_ns())) after_end(proc);
}

void ProcEnding::cancel(Proc& proc) {
  proc.progress = SpawnProgress::none;
  proc.assignment.reset();
  if (proc.state.on_cancelled(now_ns())) after_end(proc);
}

void ProcEnding::begin(Proc& proc, std::chrono::milliseconds grace, bool can_ask) {
  proc.termination.emplace(reactor_.now(), grace, can_ask);
  run(proc);
}

void ProcEnding::resume(Proc& proc) {
  if (!proc.has_ended() && proc.termination) run(proc);
}

void ProcEnding::run(Proc& proc) {
  using Action = Termination::Action;
  Termination& termination = *proc.termination;
  table_.touch(proc);
  reactor_.cancel(proc.termination_timer);
  proc.termination_timer = 0;
  for (auto action = termination.next(reactor_.now()); action != Action::none;
       action = termination.next(reactor_.now())) {
    if (action == Action::give_up) return give_up(proc);
    const auto generation = proc.state.to_wire().generation();
    if (!proc.failure) proc.state.on_stop(termination.step());
    if (proc.state.to_wire().generation() != generation) publish(proc);
    if (action == Action::ask) {
      const auto left = std::max<Reactor::Duration>(termination.due() - reactor_.now(), 0ms);
      events_.ask(proc, std::chrono::duration_cast<std::chrono::milliseconds>(left),
                  proc.stop_reason);
    } else if (action == Action::term) {
      send_signal(proc, SIGTERM);
      // A stopped process would not see it.
      if (proc.progress == SpawnProgress::born) send_signal(proc, SIGCONT);
    } else {
      send_signal(proc, SIGKILL);
    }
  }
  proc.termination_timer = reactor_.at(termination.due(), [this, id = proc.id] {
    Proc* waiting = table_.find_id(id);
    if (waiting != nullptr && !waiting->has_ended()) run(*waiting);
  });
}

void ProcEnding::give_up(Proc& proc) {
  const auto pid = proc.state.to_wire().pid();
  // In local mode it is a thread of this process: client/local.
  const bool is_thread = pid == static_cast<std::uint32_t>(::getpid());
  const bool does_share = proc.mesh.spec.procs_per_process > 1;
  const std::string text =
      "did not end within " + std::to_string(Termination::kill_limit.count()) +
      " ms after SIGKILL (" +
      (is_thread
           ? "a thread of this process cannot be ended: its main(), or a handler, does not return)"
       : does_share ? "it shares process " + std::to_string(pid) +
                          ", and its main(), or a handler, does not return)"
                    : "process " + std::to_string(pid) + ", perhaps in uninterruptible sleep)");
  log::error(name_of(proc) + ": " + text);
  if (proc.failure) {
    proc.failure->text += "; " + text;
  } else {
    proc.failure = Failure{.text = text, .cause = wire::Cause::unkillable};
  }
  if (proc.state.on_failed(now_ns())) after_end(proc);
}

void ProcEnding::skip_ask(std::uint64_t id) {
  Proc* proc = table_.find_id(id);
  if (proc == nullptr || proc->has_ended() || !proc->termination) return;
  proc->termination->skip_ask(reactor_.now());
  run(*proc);
}

void ProcEnding::send_signal(Proc& proc, int signal) {
  if (signal > 0 && signal < 64) proc.sent_signals |= std::uint64_t{1} << signal;
  table_.touch(proc);
  if (auto sent = keeper_.signal({.id = proc.id, .signal = signal, .group = true}); !sent)
    log::warn(name_of(proc) + ": " + signal_name(signal) + ": " + sent.error().to_string());
}

void ProcEnding::signal(Proc& proc, int signal) {
  if (proc.has_ended()) return;
  if (proc.progress == SpawnProgress::born) {
    send_signal(proc, signal);
  } else if (signal < 64) {
    proc.held_signals |= std::uint64_t{1} << signal;
    table_.touch(proc);
  }
}

bool ProcEnding::on_born(Proc& proc) {
  const bool is_ending = proc.termination.has_value();
  if (is_ending && !proc.failure && proc.state.on_stop(proc.termination->step())) publish(proc);
  for (int signal = 1; proc.held_signals != 0 && signal < 64; ++signal) {
    if ((proc.held_signals >> signal & 1) != 0) send_signal(proc, signal);
  }
  proc.held_signals = 0;
  return !is_ending;
}

void ProcEnding::on_exit(const keeper::Exit& exit) {
  Proc* proc = table_.find_id(exit.id);
  if (proc == nullptr) return;
  proc->usage = exit;
  outputs_.drain(*proc);
  if (proc->has_ended() && (proc->exit_reported || proc->drain_timer != 0))
    return;  // given up before
  proc->end = ProcEnd{.signaled = exit.signaled,
                      .code = exit.code,
                      .core_dumped = exit.core_dumped,
                      .ended_ns = exit.ended_realtime_ns};
  if (proc->has_ended())
    return await_output(*proc);  // another agent has told of it, but not yet how
  if (!proc->failure && has_left_before_hello(*proc)) {
    proc->failure =
        Failure{.code = wire::ErrorCode::proc_creation_error,
                .text = "ended with exit 0 before it said hello (is it a mesh program?)",
                .cause = wire::Cause::not_ready};
  }
  if (proc->failure) {
    proc->state.on_failed(exit.ended_realtime_ns);
  } else {
    proc->state.on_ended(*proc->end);
  }
  after_end(*proc);
}

void ProcEnding::on_gone(const keeper::Gone& gone) {
  Proc* proc = table_.find_id(gone.id);
  if (proc == nullptr) return keeper_.forget({gone.id});
  proc->gone = true;
  table_.touch(*proc);
  outputs_.finish(*proc);
  if (proc->output_ended && proc->has_ended()) finish_output(*proc);
  let_forget(*proc);
  events_.on_gone(*proc);
}

// The keeper keeps what it knows of a proc until it is written down here; that happens before the
// keeper hears of this.
void ProcEnding::let_forget(const Proc& proc) {
  if (proc.exit_reported && (proc.gone || proc.progress == SpawnProgress::none))
    keeper_.forget({proc.id});
}

void ProcEnding::after_end(Proc& proc) {
  publish(proc);
  reactor_.cancel(proc.termination_timer);
  proc.termination_timer = 0;
  table_.on_ended(proc);
  inputs_.close(proc);
  const bool has_process = proc.progress == SpawnProgress::born;
  const bool given_up = has_process && !proc.end && !proc.gone;
  events_.on_ended(proc, !given_up);
  if (!has_process || given_up || proc.gone) return finish_output(proc);
  await_output(proc);
}

void ProcEnding::await_output(Proc& proc) {
  proc.drain_timer = reactor_.after(kDrainLimit, [this, id = proc.id] {
    Proc* waiting = table_.find_id(id);
    if (waiting == nullptr) return;
    outputs_.drain(*waiting);
    finish_output(*waiting);
  });
}

void ProcEnding::finish_output(Proc& proc) {
  reactor_.cancel(proc.drain_timer);
  proc.drain_timer = 0;
  outputs_.close(proc);
  report_exit(proc);
}

void ProcEnding::explain(const Proc& proc, wire::ExitReportT& exit_report) {
  using wire::Cause;
  if (proc.failure) {
    exit_report.reason = proc.failure->text;
    exit_report.code = proc.failure->code;
    exit_report.os_error = proc.failure->os_error;
    exit_report.cause = proc.failure->cause;
    exit_report.consequence = proc.failure->consequence;
    return;
  }
  if (!proc.end) {
    exit_report.reason = "stopped before it was started";
    exit_report.cause = proc.stop_cause;
  } else {
    EndFacts facts = facts_of(proc);
    // Procs of one process have one end.
    const std::pair process(proc.state.to_wire().pid(), proc.end->ended_ns);
    const auto told = shared_ends_.find(process);
    if (told == shared_ends_.end()) memory_.on_counted_elsewhere(facts.memory_kills);
    if (facts.memory_kills == 0 && is_unexplained_kill(*proc.end, facts)) {
      facts.out_of_memory =
          told == shared_ends_.end() ? memory_.take(proc.end->ended_ns) : told->second;
      facts.memory_cgroup = memory_.cgroup();
    }
    if (proc.mesh.spec.procs_per_process > 1) {
      if (shared_ends_.size() == kSharedEnds) shared_ends_.erase(shared_ends_.begin());
      shared_ends_.emplace(process, facts.out_of_memory);
    }
    auto words = describe_end(*proc.end, facts);
    exit_report.reason = std::move(words.text);
    exit_report.cause = words.cause;
    if (proc.state.is_stop_asked()) {
      const bool is_killed = proc.end->signaled && proc.end->code == SIGKILL &&
                             proc.state.to_wire().step() == wire::StopStep::kill;
      const bool had_grace = (proc.sent_signals >> SIGTERM & 1) != 0;
      exit_report.cause = is_killed && had_grace && proc.stop_cause == Cause::stopped
                              ? Cause::killed_after_grace
                              : proc.stop_cause;
    }
  }
  if (!proc.state.is_stop_asked()) return;
  exit_report.because = proc.because;
  exit_report.consequence = proc.because || proc.stop_cause != Cause::stopped;
}

void ProcEnding::report_exit(Proc& proc) {
  if (std::exchange(proc.exit_reported, true)) return;
  auto exit_report = std::make_unique<wire::ExitReportT>();
  exit_report->rank = proc.rank();
  explain(proc, *exit_report);
  exit_report->stderr_tail = to_vector(proc.err.tail.text());
  exit_report->stopped_by = proc.stopped_by;
  exit_report->stop_reason = proc.stop_reason;
  const auto count = [](std::int64_t value) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
  };
  exit_report->max_rss_bytes = count(proc.usage.max_rss_kib) * 1024;
  exit_report->user_us = count(proc.usage.user_us);
  exit_report->system_us = count(proc.usage.system_us);
  if (proc.sample.seen.sampled_ns() != 0)
    exit_report->usage = std::make_unique<wire::RankUsage>(proc.sample.seen);
  proc.mesh.exit_reports.push_back(std::make_unique<wire::ExitReportT>(*exit_report));
  proc.exit_report = std::move(exit_report);
  if (proc.mesh.log_readers == 0) {
    proc.out.tail.shrink(LogStreams::kept_after_end);
    proc.err.tail.shrink(LogStreams::kept_after_end);
  }
  table_.remember(proc, reactor_.now());
  table_.touch(proc);
  let_forget(proc);
  events_.on_exit_report(proc);
  events_.on_changed(proc.mesh);
}

void ProcEnding::publish(Proc& proc) {
  proc.mesh.changes.push_back(proc.state.to_wire());
  table_.touch(proc);
  events_.on_changed(proc.mesh);
}

}  // namespace meshbus::host

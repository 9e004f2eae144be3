#include "agent/host/lifecycle/proc_ending.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "agent/host/model/exit_report.h"
#include "agent/host/model/proc_text.h"
#include "agent/host/model/real_time.h"
#include "common/base/log.h"
#include "common/base/quantity.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

/// From the exit of a process to its exit report, at most (spec 4.9).
constexpr auto kOutputLimit = 100ms;

/// A mesh proc that exits with 0 before it has said hello: it has done nothing of what it was
/// started for, and calls that a success. bootstrap() returns when the agent has acknowledged
/// ProcReady, so the end of a mesh program that was up cannot overtake its hello.
bool has_left_before_hello(const Proc& proc, const keeper::Exit& exit) {
  return proc.mesh.spec.kind == wire::ProcKind::mesh && !proc.launch.has_said_ready() &&
         proc.state.state() == wire::ProcState::running && !proc.state.is_stop_asked() &&
         !exit.signaled && exit.code == 0;
}

Error why_not_signalled(const Proc& proc, int error) {
  const std::string why =
      error == EPERM ? "process " + std::to_string(proc.state.to_wire().pid()) +
                           " runs as another user now (a setuid program?), so this host may not"
      : error == EALREADY   ? "it is held already"
      : error == EBUSY      ? "as many ranks as may be (chaos.most) are held already"
      : error == EOPNOTSUPP ? "it is a thread of its launcher (local mode), which has no signals "
                              "but SIGINT, SIGTERM and SIGKILL"
                            : std::generic_category().message(error);
  return {ErrorCode::io_error, name_of_rank(proc) + " did not get the signal: " + why};
}

}  // namespace

void ProcEnding::stop(Mesh& mesh, const StopOrder& order) {
  for (const auto& [rank, proc] : mesh.procs) stop(*proc, order);
}

void ProcEnding::stop(Proc& proc, const StopOrder& order) {
  if (proc.has_ended()) return;
  if (Termination* termination = proc.stop.termination()) {
    termination->shorten(reactor_.now(), order.grace);
    return run(proc);
  }
  proc.stop.set_order(order);
  if (proc.launch.is_queued()) {
    proc.state.on_stop(wire::StopStep::asked);
    table_.publish(proc);
    return cancel(proc);
  }
  const bool can_ask =
      proc.mesh.spec.kind == wire::ProcKind::mesh && proc.state.state() == wire::ProcState::ready;
  begin(proc, order.grace, can_ask);
}

void ProcEnding::kill_as_failed(Proc& proc, Failure failure) {
  proc.exit.fail(std::move(failure));
  begin(proc, 0ms, false);
}

void ProcEnding::fail(Proc& proc, Failure failure) {
  proc.exit.fail(std::move(failure));
  proc.launch.abandon();
  if (proc.state.on_failed(now_ns())) after_end(proc);
}

void ProcEnding::cancel(Proc& proc) {
  proc.launch.abandon();
  if (proc.state.on_cancelled(now_ns())) after_end(proc);
}

void ProcEnding::begin(Proc& proc, std::chrono::milliseconds grace, bool can_ask) {
  proc.stop.begin(Termination(reactor_.now(), grace, can_ask));
  run(proc);
}

void ProcEnding::resume(Proc& proc) {
  if (!proc.has_ended() && proc.stop.termination() != nullptr) run(proc);
}

void ProcEnding::run(Proc& proc) {
  using Action = Termination::Action;
  Termination& termination = *proc.stop.termination();
  table_.touch(proc);
  reactor_.cancel(std::exchange(proc.stop.timer, 0));
  for (auto action = termination.next(reactor_.now()); action != Action::none;
       action = termination.next(reactor_.now())) {
    if (action == Action::give_up) return give_up(proc);
    const auto generation = proc.state.to_wire().generation();
    if (!proc.exit.failure()) proc.state.on_stop(termination.step());
    if (proc.state.to_wire().generation() != generation) table_.publish(proc);
    carry_out(proc, action);
  }
  proc.stop.timer = reactor_.at(termination.due(), [this, id = proc.id] {
    Proc* waiting = table_.find_id(id);
    if (waiting != nullptr && !waiting->has_ended()) run(*waiting);
  });
}

void ProcEnding::carry_out(Proc& proc, Termination::Action action) {
  if (action == Termination::Action::ask) {
    const auto due = proc.stop.termination()->due();
    const auto left = std::max<Reactor::Duration>(due - reactor_.now(), 0ms);
    questions_.push_back({.id = proc.id,
                          .proc = proc.address,
                          .grace = std::chrono::duration_cast<std::chrono::milliseconds>(left),
                          .reason = proc.stop.order().reason});
  } else if (action == Termination::Action::term) {
    send_signal(proc, SIGTERM);
    // A stopped process would not see it.
    if (proc.launch.is_born()) send_signal(proc, SIGCONT);
  } else {
    send_signal(proc, SIGKILL);
  }
}

void ProcEnding::give_up(Proc& proc) {
  const auto pid = proc.state.to_wire().pid();
  // In local mode the proc is a thread of this process: client/local.
  const bool is_thread = pid == static_cast<std::uint32_t>(::getpid());
  const bool does_share = proc.mesh.spec.procs_per_process > 1;
  const std::string limit = duration_to_text(Termination::kKillLimit);
  const std::string why =
      is_thread    ? "a thread of this process cannot be ended: its main(), or a handler, does not "
                     "return"
      : does_share ? "it shares process " + std::to_string(pid) +
                         ", and its main(), or a handler, does not return"
                   : "process " + std::to_string(pid) + ", perhaps in uninterruptible sleep";
  const std::string text = "did not end within " + limit + " after SIGKILL (" + why + ")";
  log::error(name_of_rank(proc) + ": " + text);
  proc.exit.add_failure({.text = text, .cause = wire::Cause::unkillable});
  if (proc.state.on_failed(now_ns())) after_end(proc);
}

void ProcEnding::skip_ask(std::uint64_t id) {
  Proc* proc = table_.find_id(id);
  if (proc == nullptr || proc->has_ended() || proc->stop.termination() == nullptr) return;
  proc->stop.termination()->skip_ask(reactor_.now());
  run(*proc);
}

void ProcEnding::send_signal(Proc& proc, int signal) {
  if (signal > 0 && signal < 64) proc.stop.note_sent(signal);
  table_.touch(proc);
  const auto sent = keeper_.signal({.id = proc.id, .signal = signal, .group = true});
  if (!sent)
    log::warn(name_of_rank(proc) + ": " + signal_name(signal) + ": " + sent.error().to_string());
}

void ProcEnding::signal(Proc& proc, int signal) {
  if (proc.has_ended()) return;
  if (proc.launch.is_born()) {
    send_signal(proc, signal);
  } else if (signal < 64) {
    proc.stop.hold(signal);
    table_.touch(proc);
  }
}

void ProcEnding::hold(const keeper::Hold& hold) {
  if (const auto asked = keeper_.hold(hold); !asked) log::warn(asked.error().to_string());
}

void ProcEnding::forget_refusals() {
  keeper_.after_signals([](const Result<keeper::Signalled>&) {});
}

void ProcEnding::after_signals(const std::string& mesh,
                               std::function<void(const Result<void>&)> after) {
  keeper_.after_signals(
      [this, mesh, after = std::move(after)](const Result<keeper::Signalled>& signalled) {
        if (!signalled) return after(meshbus::fail(signalled.error()));
        const Proc* const proc = signalled->error == 0 ? nullptr : table_.find_id(signalled->id);
        if (proc == nullptr || proc->mesh.name != mesh) return after({});
        after(meshbus::fail(why_not_signalled(*proc, signalled->error)));
      });
}

bool ProcEnding::on_born(Proc& proc) {
  const Termination* termination = proc.stop.termination();
  if (termination != nullptr && !proc.exit.failure() && proc.state.on_stop(termination->step()))
    table_.publish(proc);
  const auto held = proc.stop.take_held();
  for (int signal = 1; signal < 64; ++signal) {
    if ((held >> signal & 1) != 0) send_signal(proc, signal);
  }
  return termination == nullptr;
}

void ProcEnding::on_exit(const keeper::Exit& exit) {
  Proc* proc = table_.find_id(exit.id);
  if (proc == nullptr) return;
  proc->exit.set_usage(exit);
  outputs_.read_rest(*proc);
  const bool was_given_up =
      proc->has_ended() && (proc->exit.is_reported() || proc->exit.output_timer != 0);
  if (was_given_up) return;
  proc->exit.set_end({.signaled = exit.signaled,
                      .code = exit.code,
                      .core_dumped = exit.core_dumped,
                      .ended_ns = exit.ended_realtime_ns});
  // Another agent has told of the end, but not yet how it came.
  if (proc->has_ended()) return await_output(*proc);
  if (!proc->exit.failure() && has_left_before_hello(*proc, exit)) {
    proc->exit.fail({.code = wire::ErrorCode::proc_creation_error,
                     .text = "ended with exit 0 before it said hello (is it a mesh program?)",
                     .cause = wire::Cause::not_ready});
  }
  if (proc->exit.failure()) {
    proc->state.on_failed(exit.ended_realtime_ns);
  } else {
    proc->state.on_ended(*proc->exit.end());
  }
  after_end(*proc);
}

void ProcEnding::on_gone(const keeper::Gone& gone) {
  Proc* proc = table_.find_id(gone.id);
  if (proc == nullptr) return keeper_.forget({gone.id});
  proc->exit.set_empty();
  table_.touch(*proc);
  outputs_.finish(*proc);
  if (proc->output.is_ended && proc->has_ended()) finish_output(*proc);
  let_forget(*proc);
  observer_.on_empty(*proc);
}

// The keeper keeps what it knows of a proc until it is written down here; that happens before the
// keeper hears of this.
void ProcEnding::let_forget(const Proc& proc) {
  const bool has_no_process = proc.launch.progress() == SpawnProgress::none;
  if (proc.exit.is_reported() && (proc.exit.is_empty() || has_no_process))
    keeper_.forget({proc.id});
}

void ProcEnding::after_end(Proc& proc) {
  table_.publish(proc);
  reactor_.cancel(std::exchange(proc.stop.timer, 0));
  table_.on_ended(proc);
  inputs_.close(proc);
  const bool has_process = proc.launch.is_born();
  const bool is_given_up = has_process && !proc.exit.end() && !proc.exit.is_empty();
  observer_.on_ended(proc, !is_given_up);
  if (!has_process || is_given_up || proc.exit.is_empty()) return finish_output(proc);
  await_output(proc);
}

void ProcEnding::await_output(Proc& proc) {
  proc.exit.output_timer = reactor_.after(kOutputLimit, [this, id = proc.id] {
    Proc* waiting = table_.find_id(id);
    if (waiting == nullptr) return;
    outputs_.read_rest(*waiting);
    finish_output(*waiting);
  });
}

void ProcEnding::finish_output(Proc& proc) {
  reactor_.cancel(std::exchange(proc.exit.output_timer, 0));
  outputs_.close(proc);
  report_exit(proc);
}

void ProcEnding::report_exit(Proc& proc) {
  if (proc.exit.is_reported()) return;
  table_.publish(proc, explainer_.report(proc), reactor_.now());
  if (proc.mesh.output.log_readers == 0) proc.output.shrink(ProcOutput::kKeptAfterEnd);
  let_forget(proc);
  observer_.on_reported(proc);
}

}  // namespace meshbus::host

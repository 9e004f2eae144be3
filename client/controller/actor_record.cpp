#include "client/controller/actor_record.h"

#include <utility>

#include "client/controller/watch_event.h"
#include "client/src/base/wire_reports.h"
#include "common/wire/control.h"
#include "wire/codes_generated.h"

namespace meshbus {
namespace {

/// The status of an actor in the terms of procs; nothing for one that this release does not know.
std::optional<wire::ProcState> proc_state_of(wire::StatusKind status) {
  switch (status) {
    case wire::StatusKind::initializing: return wire::ProcState::starting;
    case wire::StatusKind::running: return wire::ProcState::ready;
    case wire::StatusKind::stopping: return wire::ProcState::stopping;
    case wire::StatusKind::stopped: return wire::ProcState::stopped;
    case wire::StatusKind::failed: return wire::ProcState::failed;
    default: return std::nullopt;
  }
}

std::string words_of(const wire::ActorStateT& actor) {
  std::string text = actor.reason;
  if (actor.status == wire::StatusKind::failed && !actor.message.empty())
    text = "in message " + actor.message + ": " + text;
  for (const auto& cause : actor.causes) text += "; because: " + cause;
  return cut_text(std::move(text));
}

std::string words_of(const wire::RankState& proc, const wire::ExitReportT* exit_report) {
  RankReport report;
  copy_state(proc, report);
  if (exit_report != nullptr) report.reason = exit_report->reason;
  return cut_text("its proc has ended: " + report.words());
}

}  // namespace

bool ActorRecord::has_ended() const {
  return state && is_terminal(state->state());
}

ActorRecord::Standing ActorRecord::find_standing(bool is_host_silent) const {
  if (state && is_failure(*state)) return Standing::failed;
  if (has_ended()) return Standing::stopped;
  if (state) return is_host_silent ? Standing::unheard : Standing::live;
  if (is_terminal(proc.state())) return is_answered ? Standing::never : Standing::unasked;
  return is_answered ? Standing::absent : Standing::unknown;
}

bool ActorRecord::can_ask(bool is_host_silent) const {
  return proc.state() == wire::ProcState::ready && !is_host_silent && !has_ended();
}

std::optional<ActorRecord::End> ActorRecord::end_or_state(const wire::ActorStateT& said,
                                                          std::uint64_t rank) const {
  const auto status = proc_state_of(said.status);
  if (!status) return std::nullopt;
  End next;
  next.state.mutate_rank(rank);
  next.state.mutate_generation(said.generation);
  next.state.mutate_incarnation(proc.incarnation());
  next.state.mutate_pid(proc.pid());
  next.state.mutate_state(*status);
  if (!is_terminal(*status)) return next;
  next.state.mutate_ended_ns(said.changed_ns);
  next.exit_report = std::make_shared<wire::ExitReportT>();
  next.exit_report->rank = rank;
  next.exit_report->reason = words_of(said);
  if (*status == wire::ProcState::stopped) next.exit_report->cause = wire::Cause::stopped;
  return next;
}

ActorRecord::End ActorRecord::end_with_proc(std::uint64_t rank) const {
  End end;
  end.state = proc;
  end.state.mutate_generation(1 + (state ? state->generation() : 0));
  end.state.mutate_state(is_failure(proc) ? wire::ProcState::failed : wire::ProcState::stopped);
  end.exit_report = proc_exit_report != nullptr
                        ? std::make_shared<wire::ExitReportT>(*proc_exit_report)
                        : std::make_shared<wire::ExitReportT>();
  end.exit_report->rank = rank;
  end.exit_report->reason = words_of(proc, proc_exit_report.get());
  return end;
}

}  // namespace meshbus

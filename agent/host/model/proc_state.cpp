#include "agent/host/model/proc_state.h"

#include "wire/codes_generated.h"

namespace meshbus::host {

using State = wire::ProcState;

ProcState::ProcState(std::uint64_t rank, std::uint64_t incarnation) {
  state_.mutate_rank(rank);
  state_.mutate_incarnation(incarnation);
  change(State::starting);
}

ProcState::ProcState(const ProcState& former, std::uint64_t incarnation, std::uint32_t restarts) {
  state_.mutate_rank(former.state_.rank());
  state_.mutate_incarnation(incarnation);
  state_.mutate_generation(former.state_.generation());
  state_.mutate_restarts(restarts);
  change(State::starting);
}

void ProcState::change(State state) {
  state_.mutate_state(state);
  state_.mutate_generation(state_.generation() + 1);
}

bool ProcState::on_started(std::uint32_t pid, std::int64_t started_ns) {
  if (state() != State::starting) return false;
  state_.mutate_pid(pid);
  state_.mutate_started_ns(started_ns);
  change(State::running);
  return true;
}

bool ProcState::on_ready() {
  if (state() != State::running) return false;
  change(State::ready);
  return true;
}

bool ProcState::on_stop(wire::StopStep step) {
  if (has_ended()) return false;
  const bool is_further = step > state_.step();
  if (is_further) state_.mutate_step(step);
  const State next = state_.pid() != 0 ? State::stopping : state();
  if (is_further || next != state()) change(next);
  return true;
}

bool ProcState::on_ended(const ProcEnd& end) {
  if (has_ended()) return false;
  state_.mutate_ended_ns(end.ended_ns);
  if (end.signaled) {
    state_.mutate_signal(static_cast<std::uint8_t>(end.code));
  } else {
    state_.mutate_exit_code(end.code);
  }
  state_.mutate_core_dumped(end.core_dumped);
  change(end.signaled && !is_stop_asked() ? State::killed : State::stopped);
  return true;
}

bool ProcState::on_cancelled(std::int64_t ended_ns) {
  if (state() != State::starting || state_.pid() != 0) return false;
  state_.mutate_ended_ns(ended_ns);
  change(State::stopped);
  return true;
}

bool ProcState::on_failed(std::int64_t ended_ns) {
  if (has_ended()) return false;
  state_.mutate_ended_ns(ended_ns);
  change(State::failed);
  return true;
}

}  // namespace meshbus::host

#pragma once

#include <cstdint>

#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {

/// How a proc ended, as its parent saw it.
struct ProcEnd {
  bool signaled = false;  ///< true: `code` is a signal number; false: an exit code.
  int code = 0;
  bool core_dumped = false;
  std::int64_t ended_ns = 0;  ///< Since 1970 UTC.
};

/// The state of one incarnation of a rank (spec 4.1, 4.2). Pure: it holds no clock, descriptor or
/// thread.
///
///     Starting -> Running -> Ready -> Stopping -> Stopped | Killed | Failed
///
/// A rank may have several incarnations, one after the other; the generation counts on through
/// them.
///
/// From Starting also Stopping, once there is a pid, and every end; from Running also Stopping and
/// every end; nothing leaves an end. Each of the functions that change something returns whether it
/// was allowed; when not, nothing has changed and the caller logs it. Each change counts the
/// generation up by one, a further step of a stop too: two states of a rank that differ never have
/// the same generation.
class ProcState {
 public:
  /// Starting, generation 1.
  ProcState(std::uint64_t rank, std::uint64_t incarnation);
  /// The incarnation after `former`, which has ended: Starting.
  ProcState(const ProcState& former, std::uint64_t incarnation, std::uint32_t restarts);
  /// Goes on with what another agent knew.
  explicit ProcState(const wire::RankState& known) : state_(known) {}

  /// There is a process, and its exec succeeded: Running.
  bool on_started(std::uint32_t pid, std::int64_t started_ns);
  /// Ready: see wire::ProcKind for what that takes.
  bool on_ready();
  /// A stop was asked for, and `step` is done now: Stopping, if it is not already. The furthest
  /// step is kept. While there is no pid yet the state stays Starting, but the end will count as
  /// asked for. False when it has ended.
  bool on_stop(wire::StopStep step);
  /// The process ended. Stopped when a stop was asked for, whatever code or signal it took, and
  /// after any exit; Killed by a signal.
  bool on_ended(const ProcEnd& end);
  /// It was never started, because a stop came first: Stopped.
  bool on_cancelled(std::int64_t ended_ns);
  /// Failed: could not be started, was not ready in time, could not be ended.
  bool on_failed(std::int64_t ended_ns);

  /// How often the rank was started before this incarnation.
  std::uint32_t restarts() const noexcept { return state_.restarts(); }
  bool has_ended() const noexcept { return state_.state() >= wire::ProcState::stopped; }
  bool is_stop_asked() const noexcept { return state_.step() != wire::StopStep::none; }
  wire::ProcState state() const noexcept { return state_.state(); }
  /// As it travels; it is also how it is stored.
  const wire::RankState& to_wire() const noexcept { return state_; }

 private:
  void change(wire::ProcState state);

  wire::RankState state_;
};

}  // namespace meshbus::host

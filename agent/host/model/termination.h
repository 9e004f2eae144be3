#pragma once

#include <chrono>

#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus::host {

/// How one proc is ended: ask it, SIGTERM to its group, SIGKILL to its group, give up; each step
/// bounded (spec 4.6). Pure: it holds no clock, socket or thread; the owner calls next() at the
/// start and whenever due() has come, and does what it says.
///
/// The grace is the whole time from the start to SIGKILL. Who can be asked has the first half of it
/// to itself. A grace of 0 kills at once.
class Termination {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Action {
    none,
    ask,      ///< Send StopAndExit.
    term,     ///< SIGTERM to the process group.
    kill,     ///< SIGKILL to the process group.
    give_up,  ///< It did not even end by SIGKILL (state D, say): say so and stop waiting.
  };
  /// What a killed process gets to be gone.
  static constexpr std::chrono::milliseconds kill_limit{5000};

  Termination(Time now, std::chrono::milliseconds grace, bool can_ask);
  /// As another agent had it; step kill is done again.
  explicit Termination(const wire::LedgerStop& stop);
  wire::LedgerStop to_ledger() const;

  /// The step that is due, each one once, in order; a step that time has overtaken is left out.
  Action next(Time now);
  /// When to call next() again.
  Time due() const;
  /// Asking did not reach it: SIGTERM is due now.
  void skip_ask(Time now);
  /// A second stop with another grace, counted from now. Only ever brings SIGKILL nearer.
  void shorten(Time now, std::chrono::milliseconds grace);
  /// The furthest step so far.
  wire::StopStep step() const noexcept { return step_; }

 private:
  Time term_due_;
  Time kill_due_;
  bool ask_;
  bool given_up_ = false;
  wire::StopStep step_ = wire::StopStep::none;
};

}  // namespace meshbus::host

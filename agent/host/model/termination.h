#pragma once

#include <chrono>

#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Ends one proc in steps: ask it, SIGTERM to its group, SIGKILL to its group, give up; each step
/// is bounded (spec 4.6). Pure: it holds no clock, socket or thread; the caller calls next() at the
/// start and whenever due() has come, and does what it says.
///
/// The grace is the whole time from the start to SIGKILL. A proc that can be asked has the first
/// half of it to itself. A grace of 0 kills at once.
class Termination {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Action {
    none,
    ask,      ///< Send StopAndExit.
    term,     ///< SIGTERM to the process group.
    kill,     ///< SIGKILL to the process group.
    give_up,  ///< The process does not end by SIGKILL (it may be in state D): report that and stop
              ///< waiting.
  };
  /// How long a killed process may take to be gone.
  static constexpr std::chrono::milliseconds kKillLimit{5000};

  Termination(Time now, std::chrono::milliseconds grace, bool can_ask);
  /// Goes on where another agent was; the step kill is done again.
  explicit Termination(const wire::LedgerStop& stop);
  wire::LedgerStop to_ledger() const;

  /// The step that is due. Each step comes once, in order; a step is left out when the next one is
  /// due already.
  Action next(Time now);
  /// When to call next() again.
  Time due() const;
  /// The question did not arrive: SIGTERM is due now.
  void skip_ask(Time now);
  /// A second stop with another grace, counted from now. It can only bring SIGKILL nearer.
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

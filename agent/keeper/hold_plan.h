#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "agent/keeper/protocol.h"

namespace meshbus::keeper {

/// When procs that are held on purpose are stopped and continued. Each hold has an end, which comes
/// whatever becomes of the agent that asked for it. Pure: the time is the caller's.
class HoldPlan {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A proc that is held for a part of the time is stopped at the beginning of each period.
  static constexpr std::chrono::milliseconds kPeriod{100};

  /// Begins a hold. Returns 0, or why not: EINVAL (no time, or no percent), EALREADY (the proc is
  /// held), EBUSY (as many as `most` are held).
  int add(const Hold& hold, Time now);
  /// The proc is held no more, because it has ended or was told to go on. Returns whether it was.
  bool release(std::uint64_t id) { return held_.erase(id) > 0; }

  struct Step {
    std::uint64_t id;
    bool stop;  ///< Else: continue.
  };
  /// Takes the steps that are due now.
  std::vector<Step> take_steps(Time now);
  /// When take_steps() has something to do; Time::max(): never.
  Time due() const;
  std::size_t size() const noexcept { return held_.size(); }

 private:
  struct Held {
    Time end;
    Time next;  // of the next step
    std::chrono::milliseconds stopped;
    bool is_stopped = false;
  };

  std::unordered_map<std::uint64_t, Held> held_;
};

}  // namespace meshbus::keeper

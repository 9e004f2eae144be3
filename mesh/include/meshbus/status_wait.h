#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "meshbus/result.h"
#include "meshbus/status_mesh.h"

/// Waiting until every rank of a mesh has got somewhere.
///
///     StatusWait wait(region, Status::Kind::running, {.deadline = 30s, .idle = 10s}, now);
///     wait.merge(*parse_statuses("Running=0..5;Initializing=5..8"), now);   // at each update
///     wait.check(now);         // State::waiting; State::idle 10 s after the last change
///     wait.outcome(now);
///         // timeout: no change for 10s, 3 of 8 ranks have not reached Running: Initializing=5..8
namespace [[gnu::visibility("default")]] meshbus {

/// Pure: holds no clock, socket or thread; times come from the caller and do not go back.
class StatusWait {
 public:
  using Time = std::chrono::steady_clock::time_point;  ///< By a clock that is never set.

  /// No limit: nothing.
  struct Limits {
    std::optional<std::chrono::milliseconds> deadline = {};  ///< For the whole wait.
    std::optional<std::chrono::milliseconds> idle = {};      ///< Without a change of any rank.
  };
  /// How the wait stands.
  enum class State : std::uint8_t {
    waiting,   ///< Some ranks are missing, and there is time.
    complete,  ///< Every rank has reached the status, or has failed: look at statuses().
    deadline,  ///< The deadline has passed.
    idle,      ///< Nothing has changed for too long.
  };

  /// At first every rank is NotExist.
  StatusWait(Region region, Status::Kind minimum, Limits limits, Time now);

  /// Merges newer statuses. An equal status does not count as a change. Errors: out_of_range; then
  /// nothing has changed.
  Result<void> merge(const StatusOverlay& newer, Time now);
  Result<void> set(std::uint64_t rank, const Status& status, Time now);

  State check(Time now) const noexcept;  ///< The state at that time.
  /// When check() may return another state although nothing was merged.
  std::optional<Time> next_due() const noexcept;

  const StatusMesh& statuses() const noexcept { return statuses_; }  ///< What is known so far.
  /// Nothing when it is complete. Errors: timeout otherwise, which names the missing ranks and
  /// their statuses.
  Result<void> outcome(Time now) const;

 private:
  StatusMesh statuses_;
  Status::Kind minimum_;
  Limits limits_;
  Time begin_;
  Time last_change_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "meshbus/rank_report.h"

/// Whether ranks that have ended are started anew (spec 8.9). Plain values.
namespace [[gnu::visibility("default")]] meshbus {

/// Which ranks begin a new life when one has ended; the others of them are stopped first.
enum class Gang : std::uint8_t {
  one,   ///< The failed rank alone.
  all,   ///< All ranks of the mesh, also those that are done.
  rest,  ///< The failed rank and all after it.
};

/// Which ends of a rank are answered by a new life, how soon, and how often. An end that somebody
/// asked for is never answered; nor is one that would only come again (the command cannot be
/// executed) or of which nobody knows that it is one (its host is lost).
struct RestartPolicy {
  /// Which ends.
  enum class On : std::uint8_t {
    never,    ///< None.
    failure,  ///< RankReport::is_failure().
    always,   ///< Also exit 0.
  };
  On on = On::never;  ///< Which ends.
  /// Only ends with these codes (RankReport::shell_code(): 128 + signal); empty = all that `on`
  /// names.
  std::vector<int> codes = {};
  /// How often within `window`; nothing = no limit. With Gang::one for each rank, else for the
  /// mesh.
  std::optional<std::uint64_t> budget = {};
  /// 0 = as long as the mesh lives.
  std::chrono::milliseconds window{0};
  Gang gang = Gang::one;  ///< The ranks that are restarted with it.
  /// From an end to the restart, at least; doubled each time, up to max_delay. After an incarnation
  /// that ran longer than max_delay, it starts from this value again.
  std::chrono::milliseconds delay{1000};
  std::chrono::milliseconds max_delay{30'000};  ///< At least `delay`, or the delay is this one.
  /// Up to this part of a delay is left out, by chance: ranks that fail together do not come back
  /// together.
  double jitter = 0.25;
};

/// What was decided about an end. The new lives themselves are told as every change is: by
/// Handlers::on_state.
struct RestartReport {
  RankReport cause;           ///< The end that is the reason, with its exit report.
  RankSet ranks;              ///< Ranks that are restarted; those that live are stopped first.
  std::uint64_t restart = 0;  ///< Counts against the budget, from 1.
  std::optional<std::uint64_t> budget = {};  ///< The budget of the policy.
  std::chrono::milliseconds delay{0};        ///< They begin so long after the end, at the earliest.
};

}  // namespace meshbus

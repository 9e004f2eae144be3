#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "meshbus/rank_report.h"

/// Whether ranks that have ended are restarted. Plain values.
namespace [[gnu::visibility("default")]] meshbus {

/// Which ranks are restarted when one has ended; those that still run are stopped first.
enum class Gang : std::uint8_t {
  one,   ///< The failed rank alone.
  all,   ///< All ranks of the mesh, also those that are done.
  rest,  ///< The failed rank and all after it.
};

/// Which ends of a rank lead to a restart, how soon, and how often. An end that was requested never
/// does; nor does one that would only repeat (the command cannot be executed) or that is not
/// certain (its host is lost; but see ProcSpec::spares).
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
  /// 0 = the lifetime of the mesh.
  std::chrono::milliseconds window{0};
  Gang gang = Gang::one;  ///< The ranks that are restarted with it.
  /// The least time from an end to the restart; doubled each time, up to max_delay. It is reset
  /// after an incarnation that ran longer than max_delay.
  std::chrono::milliseconds delay{1000};
  std::chrono::milliseconds max_delay{30'000};  ///< At least `delay`, or the delay is this one.
  /// Up to this part of a delay is left out at random, so that ranks that fail together do not come
  /// back together.
  double jitter = 0.25;
};

/// The decision to restart after an end. The restarts themselves are reported by
/// Handlers::on_state, as every change is.
struct RestartReport {
  RankReport cause;           ///< The end that is the reason, with its exit report.
  RankSet ranks;              ///< Ranks that are restarted; those that live are stopped first.
  std::uint64_t restart = 0;  ///< Counts against the budget, from 1.
  std::optional<std::uint64_t> budget = {};  ///< The budget of the policy.
  std::chrono::milliseconds delay{0};        ///< The least time from the end to the restart.
  /// Their host is lost, and they are started on a spare (ProcSpec::spares). That does not count
  /// against the budget: `restart` is 0. With a `delay` the host is only silent, and what it runs
  /// has ended by then; `forever`: nothing but proof of its end would say so.
  bool is_move = false;
};

}  // namespace meshbus

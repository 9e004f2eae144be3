#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/ranks_generated.h"

namespace meshbus::host {

/// What has happened to the procs of a host since its agent started: only counts that grow.
/// Written by ProcTable.
struct HostCounts {
  static constexpr std::size_t kCauses = static_cast<std::size_t>(wire::Cause::MAX) + 1;

  /// A rank has ended, and its exit report names that cause.
  void add_end(wire::Cause cause, bool has_failed) noexcept {
    const auto index = static_cast<std::size_t>(cause);
    if (index >= kCauses) return;
    ++causes[index];
    if (has_failed) ++failures[index];
  }

  std::uint64_t spawned = 0;    ///< Ranks started for the first time.
  std::uint64_t restarted = 0;  ///< Ranks started again.
  std::array<std::uint64_t, kCauses> causes{};
  std::array<std::uint64_t, kCauses> failures{};
};

}  // namespace meshbus::host

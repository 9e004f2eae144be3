#pragma once

#include <cstdint>

namespace meshbus {

/// What a controller counts, for its metrics. A plain value.
struct ControllerCounts {
  std::uint64_t polls = 0;
  std::uint64_t late_polls = 0;
  std::uint64_t events = 0;  ///< Told to the owner and to subscribers.
  std::uint64_t subscribers = 0;
  std::uint64_t hosts = 0;
  std::uint64_t unreachable = 0;
  std::uint64_t meshes = 0;
  std::uint64_t owned = 0;  ///< Meshes with live ranks that this controller answers for.
  std::uint64_t ranks = 0;
  std::uint64_t live = 0;
  std::uint64_t failed = 0;
  bool is_up = false;  ///< A broker has taken this controller.
};

}  // namespace meshbus

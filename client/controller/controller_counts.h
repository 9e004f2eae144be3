#pragma once

#include <cstdint>
#include <string>

namespace meshbus {

/// What a controller counts, for its metrics. A plain value. Large because: it has a field for each
/// metric.
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
  std::uint64_t unheard = 0;  ///< Ranks in `live` whose host does not answer.
  std::uint64_t failed = 0;
  bool is_up = false;      ///< A broker has taken this controller.
  bool is_acting = true;   ///< It acts; else it is one of a pair, and stands by.
  std::uint64_t term = 0;  ///< The last term of its pair that it knows of.
  std::string actor = {};  ///< The controller of its pair that acts, as far as it knows.
};

}  // namespace meshbus

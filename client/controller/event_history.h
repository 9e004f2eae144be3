#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "client/controller/watch_event.h"

namespace meshbus {

/// What a controller had to say of late, for subscribers that come from another controller: the
/// present state alone would hide from them what began and ended between the two. Pure.
///
/// Kept are changes of ranks, restarts and sizes. What stands (hosts that do not answer, troubles,
/// ends of meshes) is part of the present state.
class EventHistory {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Far longer than a take-over takes.
  static constexpr std::chrono::minutes kMemory{5};
  static constexpr std::size_t kMost = 20'000;

  void add(const std::vector<WatchEvent>& events, Time now);
  /// In the order in which they were said.
  std::vector<WatchEvent> events() const;

 private:
  std::deque<std::pair<Time, WatchEvent>> events_;
};

}  // namespace meshbus

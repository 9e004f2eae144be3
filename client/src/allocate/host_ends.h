#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace meshbus {

/// How the hosts of an allocation have ended, by rank. Any thread.
class HostEnds {
 public:
  struct End {
    std::string how;
    /// False: only the way to it has ended, and it may take a while to notice.
    bool is_proven = true;
  };
  using Listener = std::function<void(std::uint64_t rank, const End& end)>;

  explicit HostEnds(std::size_t count) : ends_(count) {}

  /// The first word about a host counts.
  void note(std::uint64_t rank, End end);
  /// Told of each end, also of those that were noted before, with everything locked. One listener.
  void listen(Listener listener);
  /// Waits until that host has ended.
  std::optional<std::string> wait(std::uint64_t rank, std::chrono::milliseconds deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<End>> ends_;  // guarded by mutex_
  Listener listener_;                     // guarded by mutex_
};

}  // namespace meshbus

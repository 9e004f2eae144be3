#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace meshbus {

/// The procs that want to know when the connection of another one ends (Watch, Gone in bus.fbs).
/// Pure.
class WatchList {
 public:
  struct Watcher {
    std::uint64_t proc;
    std::uint64_t host;
    std::uint64_t incarnation;
    /// Id of the Watch request.
    std::uint64_t request;
    /// Incarnation of the proc that is watched.
    std::uint64_t watched;
    bool operator==(const Watcher&) const = default;
  };
  /// At most `limit` watches altogether, and `watcher_limit` procs that one proc watches.
  explicit WatchList(std::size_t limit = 65536, std::size_t watcher_limit = 4096)
      : limit_(limit), watcher_limit_(watcher_limit) {}

  /// One incarnation of a watcher has one watch of each incarnation of a proc: when it asks again,
  /// the newest request replaces the one before. False when there are too many watches, altogether
  /// or of this watcher.
  bool add(std::uint64_t proc, const Watcher& watcher);
  /// Takes out the watchers of that incarnation of `proc`, in order.
  std::vector<Watcher> take(std::uint64_t proc, std::uint64_t incarnation);
  /// An incarnation of a watcher is over.
  void forget(std::uint64_t watcher_proc, std::uint64_t watcher_incarnation);
  std::size_t size() const noexcept { return size_; }

 private:
  std::size_t limit_;
  std::size_t watcher_limit_;
  std::size_t size_ = 0;
  std::unordered_map<std::uint64_t, std::vector<Watcher>> watched_;
  /// Watcher's proc -> what it watches, so that forget() need not look at everything.
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>> watched_by_;
};

}  // namespace meshbus

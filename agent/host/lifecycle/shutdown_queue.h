#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_set>
#include <vector>

namespace meshbus::host {

/// Chooses which procs to end next when a host is drained or shut down, so many at a time
/// (spec 5.3). Pure: it knows ids only.
class ShutdownQueue {
 public:
  ShutdownQueue(const std::vector<std::uint64_t>& procs, std::size_t in_flight)
      : waiting_(procs.begin(), procs.end()),
        open_(procs.begin(), procs.end()),
        in_flight_(in_flight),
        attempted_(procs.size()) {}

  /// A later request may have more at a time.
  void allow(std::size_t in_flight) { in_flight_ = std::max(in_flight_, in_flight); }
  /// The next proc to end; nothing: wait for on_ended().
  std::optional<std::uint64_t> next() {
    while (running_.size() < in_flight_ && !waiting_.empty()) {
      const auto proc = waiting_.front();
      waiting_.pop_front();
      // It may have ended by itself meanwhile.
      if (open_.contains(proc)) return *running_.insert(proc).first;
    }
    return std::nullopt;
  }
  /// `ok`: the proc has ended; otherwise it was given up.
  void on_ended(std::uint64_t proc, bool ok) {
    running_.erase(proc);
    if (open_.erase(proc) > 0 && !ok) ++failed_;
  }

  bool is_done() const noexcept { return open_.empty(); }
  std::size_t attempted() const noexcept { return attempted_; }
  std::size_t failed() const noexcept { return failed_; }
  /// Procs that have not ended yet.
  std::size_t left() const noexcept { return open_.size(); }

 private:
  std::deque<std::uint64_t> waiting_;
  std::unordered_set<std::uint64_t> open_;
  std::unordered_set<std::uint64_t> running_;
  std::size_t in_flight_;
  std::size_t attempted_;
  std::size_t failed_ = 0;
};

}  // namespace meshbus::host

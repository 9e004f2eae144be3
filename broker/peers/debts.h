#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace meshbus {

/// Whose bytes wait in a queue of data, in the order in which they leave it: what leaves gives its
/// sender credit. Pure.
class Debts {
 public:
  /// Bytes that no peer of ours answers for: what came by a link, or from the broker itself.
  static constexpr std::uint64_t kNobody = UINT64_MAX;

  /// `debtor`: a connection, or kNobody.
  void add(std::uint64_t debtor, std::size_t bytes) {
    if (runs_.empty() || runs_.back().debtor != debtor) runs_.push_back({debtor, 0});
    runs_.back().bytes += bytes;
  }
  /// The next so many bytes have left: tells each(debtor, bytes), nobody's left out. There may be
  /// fewer.
  template <typename Each>
  void take(std::size_t bytes, Each&& each) {
    while (bytes > 0 && !runs_.empty()) {
      Run& run = runs_.front();
      const std::size_t taken = bytes < run.bytes ? bytes : run.bytes;
      const std::uint64_t debtor = run.debtor;
      bytes -= taken;
      run.bytes -= taken;
      if (run.bytes == 0) runs_.pop_front();
      if (debtor != kNobody) each(debtor, taken);
    }
  }
  /// Nobody answers for what waits now any more: tells each(debtor, bytes).
  template <typename Each>
  void forgive(Each&& each) {
    std::deque<Run> forgiven;
    forgiven.swap(runs_);
    for (const Run& run : forgiven) add(kNobody, run.bytes);
    for (const Run& run : forgiven) {
      if (run.debtor != kNobody) each(run.debtor, run.bytes);
    }
  }
  bool empty() const noexcept { return runs_.empty(); }

 private:
  struct Run {
    std::uint64_t debtor;
    std::size_t bytes;
  };
  std::deque<Run> runs_;
};

}  // namespace meshbus

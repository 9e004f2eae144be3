#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace meshbus {

/// How many chunks of one body may be unanswered. Few: what waits in a broker for a receiver that
/// has stopped takes of the sender's window (kWindow), and holds up what it sends to others. More
/// where answers take long: a body needs about 128 MB/s to be worth it. Pure.
class ChunkPace {
 public:
  /// Bytes of one chunk: a quarter of kWindow.
  static constexpr std::size_t kChunk = 128 * 1024;
  static constexpr std::size_t kFewest = 2;
  static constexpr std::size_t kMost = 64;

  std::size_t allowed() const noexcept { return allowed_; }
  /// A chunk was answered after this time.
  void on_answer(std::chrono::steady_clock::duration took) noexcept {
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
    const auto wanted =
        std::clamp(static_cast<std::size_t>(std::max<long>(milliseconds, 0)), kFewest, kMost);
    // By one for each answer: chunks that wait for each other are no long way.
    if (wanted > allowed_) ++allowed_;
    if (wanted < allowed_) --allowed_;
  }

 private:
  std::size_t allowed_ = kFewest;
};

}  // namespace meshbus

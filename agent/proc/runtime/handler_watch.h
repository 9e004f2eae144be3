#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace meshbus::mesh_proc {

/// Finds out how long the present handler of the handlers' thread has run. The thread that runs
/// handlers only counts, and reads no clock; look() remembers when it first saw a count. So
/// an age is too small by at most the time between two looks.
class HandlerWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  /// Stands for on_undelivered among the ports.
  static constexpr std::uint64_t kUndelivered = UINT64_MAX;
  /// Likewise for on_setting.
  static constexpr std::uint64_t kSetting = UINT64_MAX - 1;
  /// Likewise for on_world.
  static constexpr std::uint64_t kWorld = UINT64_MAX - 2;

  struct Running {
    std::uint64_t port = 0;
    Duration busy{0};
  };

  /// Counts a handler for as long as it lives. On the handlers' thread, one at a time.
  class Run {
   public:
    Run(HandlerWatch& watch, std::uint64_t port) noexcept : watch_(watch) {
      watch_.port_.store(port, std::memory_order_relaxed);
      watch_.step();
    }
    ~Run() { watch_.step(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    HandlerWatch& watch_;
  };

  /// The handler that runs now. Always on the same thread.
  std::optional<Running> look(Time now);

 private:
  void step() noexcept {
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  std::atomic<std::uint64_t> port_{0};
  std::atomic<std::uint64_t> count_{0};  ///< Odd: a handler runs.
  // For look() alone.
  std::uint64_t seen_ = 0;
  Time since_{};
};

}  // namespace meshbus::mesh_proc

#pragma once

#include <semaphore.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace meshbus {

/// Flushes what other threads have packed, as soon as they leave a CPU for it: on a thread of its
/// own that never takes the CPU away from another one (SCHED_BATCH), so that a thread that goes on
/// sending goes on packing, and one that blocks has flushed (decision 30). The thread is made when
/// it is asked for the first time. Any thread may ask.
class Flusher {
 public:
  explicit Flusher(std::function<void()> flush);
  ~Flusher();
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  /// Has it flush once, for all that ask until then. False when no thread can be had.
  bool ask();
  /// Ends the thread; asking does nothing afterwards. Not for the thread itself.
  void stop();

 private:
  void start();
  void run();

  const std::function<void()> flush_;
  sem_t asked_;
  std::atomic<bool> is_asked_{false};
  std::atomic<bool> is_ending_{false};
  std::once_flag once_;
  std::atomic<bool> is_running_{false};
  std::thread thread_;
};

}  // namespace meshbus

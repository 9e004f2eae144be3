#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace meshbus {

/// The thread on which a launcher's handlers run, one at a time, in the order in which they were
/// posted. It starts with the first of them.
class HandlerThread {
 public:
  HandlerThread() = default;
  ~HandlerThread() { finish(); }
  HandlerThread(const HandlerThread&) = delete;
  HandlerThread& operator=(const HandlerThread&) = delete;

  /// From any thread. False after finish(): the task will not run.
  bool post(std::function<void()> task);
  /// Runs what is queued, waits for it, and ends the thread. Not from the thread itself.
  void finish();
  /// Whether the caller is a handler.
  bool is_here() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace meshbus

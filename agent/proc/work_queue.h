#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace meshbus::mesh_proc {

/// The thread that the program's handlers run on, one at a time, and what waits for it. Every function may be called from any thread.
class WorkQueue {
 public:
  using Task = std::function<void()>;
  struct Limits {
    std::size_t bytes;
    std::size_t count;
  };
  explicit WorkQueue(Limits limits) : limits_(limits) {}

  /// Makes the thread. It takes over the caller's signal mask, so that what handlers execute gets the program's own.
  void start();
  bool is_running() const noexcept { return thread_.joinable(); }

  /// Queues work that holds so many bytes. False when the queue is full or finished.
  bool push(std::size_t bytes, Task task);
  /// Whether push() would take something small.
  bool has_room();
  /// Queues work of our own, which is never refused: before or behind everything else.
  void push_first(Task task);
  void push_last(Task task);

  /// Runs what is queued, takes nothing more, and waits for the end. Called from a task: only takes nothing more.
  void finish();
  /// Whether the caller is a task.
  bool is_here() const noexcept;

 private:
  struct Item {
    std::size_t bytes;
    Task task;
  };
  void run();

  const Limits limits_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // guarded by mutex_, like what follows
  std::size_t bytes_ = 0;
  bool finished_ = false;
};

}  // namespace meshbus::mesh_proc

#include "agent/proc/loop/work_queue.h"

#include <pthread.h>

#include <utility>

namespace meshbus::mesh_proc {
namespace {

thread_local const WorkQueue* running_queue = nullptr;

}  // namespace

void WorkQueue::start() {
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "meshbus-work");
}

void WorkQueue::share_loop(LoopSharing::Turn turn, LoopSharing::Wake wake) {
  const std::lock_guard lock(mutex_);
  sharing_.set(std::move(turn), std::move(wake));
  changed_.notify_one();
}

bool WorkQueue::push(std::size_t bytes, std::size_t count, Task task) {
  std::unique_lock lock(mutex_);
  if (finished_ || (count_ > 0 && count_ + count > limits_.count) ||
      (bytes_ > 0 && bytes_ + bytes > limits_.bytes))
    return false;
  bytes_ += bytes;
  count_ += count;
  items_.push_back({bytes, count, std::move(task)});
  call(std::move(lock));
  return true;
}

void WorkQueue::push_first(Task task) {
  std::unique_lock lock(mutex_);
  items_.push_front({0, 0, std::move(task)});
  call(std::move(lock));
}

void WorkQueue::push_last(Task task) {
  std::unique_lock lock(mutex_);
  items_.push_back({0, 0, std::move(task)});
  call(std::move(lock));
}

void WorkQueue::call(std::unique_lock<std::mutex> lock) {
  const bool is_led = sharing_.is_led();
  ++pushes_;
  lock.unlock();
  if (is_here()) return;
  if (!is_led) {
    changed_.notify_one();
  } else {
    sharing_.wake();
  }
}

void WorkQueue::finish() {
  {
    std::unique_lock lock(mutex_);
    finished_ = true;
    call(std::move(lock));
  }
  // In this order: start() may still be writing thread_ when the first task, on the new thread,
  // finishes.
  if (!is_here() && thread_.joinable()) thread_.join();
}

bool WorkQueue::is_here() const noexcept {
  return running_queue == this;
}

bool WorkQueue::is_wanted() const {
  const std::lock_guard lock(mutex_);
  return has_reason();
}

bool WorkQueue::is_last() {
  const std::lock_guard lock(mutex_);
  return sharing_.has_loop() && !has_reason();
}

void WorkQueue::run() {
  running_queue = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    sharing_.follow(lock, changed_, [this] { return has_reason(); });
    if (items_.empty()) {
      lock.unlock();
      // The last task may have counted on this thread to turn the loop.
      sharing_.wake();
      return;
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    count_ -= item.count;
    lock.unlock();
    item.task();
    // What it holds goes while nothing is locked.
    item.task = nullptr;
    lock.lock();
    // Counted until it is done, so that the limit holds for everything that is in memory.
    bytes_ -= item.bytes;
  }
}

}  // namespace meshbus::mesh_proc

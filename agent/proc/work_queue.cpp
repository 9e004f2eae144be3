#include "agent/proc/work_queue.h"

#include <pthread.h>

#include <utility>

namespace meshbus::mesh_proc {
namespace {

thread_local const WorkQueue* running_here = nullptr;

}  // namespace

void WorkQueue::start() {
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "meshbus-work");
}

bool WorkQueue::push(std::size_t bytes, Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || items_.size() >= limits_.count || (bytes_ > 0 && bytes_ + bytes > limits_.bytes)) return false;
    bytes_ += bytes;
    items_.push_back({bytes, std::move(task)});
  }
  changed_.notify_one();
  return true;
}

bool WorkQueue::has_room() {
  const std::lock_guard lock(mutex_);
  return !finished_ && items_.size() < limits_.count && bytes_ < limits_.bytes;
}

void WorkQueue::push_first(Task task) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_front({0, std::move(task)});
  }
  changed_.notify_one();
}

void WorkQueue::push_last(Task task) {
  {
    const std::lock_guard lock(mutex_);
    items_.push_back({0, std::move(task)});
  }
  changed_.notify_one();
}

void WorkQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  changed_.notify_one();
  // In this order: start() may still be writing thread_ when the first task, on the new thread, finishes.
  if (!is_here() && thread_.joinable()) thread_.join();
}

bool WorkQueue::is_here() const noexcept {
  return running_here == this;
}

void WorkQueue::run() {
  running_here = this;
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return finished_ || !items_.empty(); });
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
    }
    item.task();
    // Counted until it is done, so that the limit holds for everything that is in memory.
    const std::lock_guard lock(mutex_);
    bytes_ -= item.bytes;
  }
}

}  // namespace meshbus::mesh_proc

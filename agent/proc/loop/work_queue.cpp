#include "agent/proc/loop/work_queue.h"

#include <pthread.h>

#include <utility>

namespace meshbus::mesh_proc {
namespace {

thread_local const WorkQueue* running_queue = nullptr;
thread_local const WorkQueue* shared_here = nullptr;

}  // namespace

void WorkQueue::start() {
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "meshbus-work");
}

void WorkQueue::set_pastime(Pastime::Run run, Pastime::Wake wake) {
  const std::lock_guard lock(mutex_);
  pastime_.set(std::move(run), std::move(wake));
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
  const bool is_passing_time = pastime_.is_on();
  ++pushes_;
  lock.unlock();
  if (is_here()) return;
  if (!is_passing_time) {
    changed_.notify_one();
  } else if (shared_here != this) {
    pastime_.wake();
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

bool WorkQueue::is_wanted() {
  const std::lock_guard lock(mutex_);
  return has_reason() || pastime_.is_called();
}

void WorkQueue::share_pastime() {
  shared_here = this;
}

bool WorkQueue::is_missed() {
  const std::lock_guard lock(mutex_);
  return pastime_.is_on() && has_reason();
}

void WorkQueue::hand_over() {
  std::unique_lock lock(mutex_);
  if (has_reason()) pastime_.call(lock);
}

bool WorkQueue::is_last() {
  const std::lock_guard lock(mutex_);
  return pastime_.is_set() && !has_reason();
}

void WorkQueue::run() {
  running_queue = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!has_reason()) {
      pastime_.pass(lock);
      if (!has_reason()) changed_.wait(lock);
    }
    if (items_.empty()) {
      lock.unlock();
      // The last task may have counted on the pastime.
      pastime_.wake();
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

#include "agent/proc/work_queue.h"

#include <pthread.h>

#include <utility>

namespace meshbus::mesh_proc {
namespace {

thread_local const WorkQueue* running_here = nullptr;
thread_local const WorkQueue* shared_here = nullptr;

}  // namespace

void WorkQueue::start() {
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "meshbus-work");
}

void WorkQueue::set_pastime(Pastime pastime) {
  const std::lock_guard lock(mutex_);
  pastime_ = std::move(pastime);
  changed_.notify_one();
}

bool WorkQueue::push(std::size_t bytes, Task task) {
  std::unique_lock lock(mutex_);
  if (finished_ || items_.size() >= limits_.count || (bytes_ > 0 && bytes_ + bytes > limits_.bytes)) return false;
  bytes_ += bytes;
  items_.push_back({bytes, std::move(task)});
  call(std::move(lock));
  return true;
}

bool WorkQueue::has_room() {
  const std::lock_guard lock(mutex_);
  return !finished_ && items_.size() < limits_.count && bytes_ < limits_.bytes;
}

void WorkQueue::push_first(Task task) {
  std::unique_lock lock(mutex_);
  items_.push_front({0, std::move(task)});
  call(std::move(lock));
}

void WorkQueue::push_last(Task task) {
  std::unique_lock lock(mutex_);
  items_.push_back({0, std::move(task)});
  call(std::move(lock));
}

void WorkQueue::call(std::unique_lock<std::mutex> lock) {
  const bool is_passing_time = is_passing_time_;
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
  // In this order: start() may still be writing thread_ when the first task, on the new thread, finishes.
  if (!is_here() && thread_.joinable()) thread_.join();
}

bool WorkQueue::is_here() const noexcept {
  return running_here == this;
}

bool WorkQueue::is_wanted() {
  const std::lock_guard lock(mutex_);
  return has_reason();
}

void WorkQueue::share_pastime() {
  shared_here = this;
}

bool WorkQueue::is_missed() {
  const std::lock_guard lock(mutex_);
  return is_passing_time_ && has_reason();
}

void WorkQueue::hand_over() {
  std::unique_lock lock(mutex_);
  if (!is_passing_time_ || !has_reason()) return;
  const auto times = times_passed_;
  lock.unlock();
  pastime_.wake();
  lock.lock();
  awake_.wait(lock, [&] { return times_passed_ != times; });
}

bool WorkQueue::is_last() {
  const std::lock_guard lock(mutex_);
  return pastime_.run && !has_reason();
}

void WorkQueue::wait(std::unique_lock<std::mutex>& lock) {
  if (!pastime_.run) return changed_.wait(lock);
  is_passing_time_ = true;
  lock.unlock();
  pastime_.run();
  lock.lock();
  is_passing_time_ = false;
  ++times_passed_;
  awake_.notify_all();
}

void WorkQueue::run() {
  running_here = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!has_reason()) wait(lock);
    if (items_.empty()) {
      // The last task may have counted on the pastime.
      const auto wake = pastime_.wake;
      lock.unlock();
      if (wake) wake();
      return;
    }
    Item item = std::move(items_.front());
    items_.pop_front();
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

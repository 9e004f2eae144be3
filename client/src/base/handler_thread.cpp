#include "client/src/base/handler_thread.h"

#include "common/base/masked_thread.h"

namespace meshbus {

bool HandlerThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return false;
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = start_masked_thread([this] { run(); });
  }
  changed_.notify_one();
  return true;
}

void HandlerThread::finish() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool HandlerThread::is_here() const {
  const std::lock_guard lock(mutex_);
  return thread_.get_id() == std::this_thread::get_id();
}

void HandlerThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    // What the task held goes while nothing is locked: its destructor may post.
    task = nullptr;
    lock.lock();
  }
}

}  // namespace meshbus

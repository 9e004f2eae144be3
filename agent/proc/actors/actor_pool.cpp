#include "agent/proc/actors/actor_pool.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "common/base/log.h"

namespace meshbus::mesh_proc {
namespace {

thread_local const ActorPool* running_pool = nullptr;

}  // namespace

void ActorPool::start() {
  const std::lock_guard lock(mutex_);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  for (std::size_t i = 0; i < options_.threads; ++i) add_worker();
}

void ActorPool::add_worker() {
  auto& worker = *workers_.emplace_back(std::make_unique<Worker>());
  try {
    worker.thread = std::thread([this, &worker] { work(worker); });
  } catch (const std::system_error& error) {
    workers_.pop_back();
    if (workers_.empty()) throw;
    log::warn(std::string("a thread more for actors cannot be had: ") + error.what());
  }
}

void ActorPool::share_loop(LoopSharing::Turn turn, LoopSharing::Wake wake) {
  const std::lock_guard lock(mutex_);
  sharing_.set(std::move(turn), std::move(wake));
  changed_.notify_one();
}

void ActorPool::submit(std::vector<std::shared_ptr<Runnable>> batch) {
  if (batch.empty()) return;
  std::size_t sleeping = batch.size();  // those that have something to do and may sleep
  {
    const std::lock_guard lock(mutex_);
    std::move(batch.begin(), batch.end(), std::back_inserter(queue_));
    ++batches_;
    if (sharing_.is_led()) --sleeping;
  }
  if (sleeping == 1) {
    changed_.notify_one();
  } else if (sleeping > 1) {
    changed_.notify_all();
  }
}

void ActorPool::submit(std::shared_ptr<Runnable> one) {
  std::unique_lock lock(mutex_);
  queue_.push_back(std::move(one));
  const bool is_for_all = sharing_.is_led() && queue_.size() >= free_threads();
  lock.unlock();
  changed_.notify_one();
  if (is_for_all) sharing_.wake();
}

std::size_t ActorPool::free_threads() const {
  return static_cast<std::size_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const auto& worker) { return !worker->busy_since && !worker->is_over; }));
}

bool ActorPool::is_starved() const {
  const std::lock_guard lock(mutex_);
  return !finished_ && !queue_.empty() && free_threads() == 0;
}

void ActorPool::relieve(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (finished_ || queue_.empty()) return;
  std::size_t wanted = 0;
  for (auto& worker : workers_) {
    if (!worker->busy_since || worker->is_relieved || now - *worker->busy_since < options_.patience)
      continue;
    if (workers_.size() + wanted >= options_.most_threads) break;
    worker->is_relieved = true;
    ++relieved_;
    ++wanted;
  }
  while (wanted-- > 0) add_worker();
}

std::size_t ActorPool::threads() const {
  const std::lock_guard lock(mutex_);
  return workers_.size();
}

std::size_t ActorPool::left_behind() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [](const auto& worker) { return worker->is_left; }));
}

bool ActorPool::is_here() const noexcept {
  return running_pool == this;
}

bool ActorPool::is_wanted() const {
  const std::lock_guard lock(mutex_);
  return has_reason();
}

void ActorPool::work(Worker& self) {
  ::pthread_setname_np(::pthread_self(), "meshbus-actor");
  std::unique_lock lock(mutex_);
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  for (;;) {
    sharing_.follow(lock, changed_, [this] { return has_reason(); });
    if (finished_) break;
    auto next = std::move(queue_.front());
    queue_.pop_front();
    self.busy_since = Clock::now();
    lock.unlock();
    running_pool = this;
    next->run();
    next.reset();
    running_pool = nullptr;
    lock.lock();
    self.busy_since.reset();
    if (self.is_relieved) {
      // Another thread works in its place. What it ran may have counted on it to turn the loop.
      --relieved_;
      sharing_.wake();
      break;
    }
  }
  self.is_over = true;
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& worker) { return worker.get() == &self; });
  // A thread that finish() waits for is removed there.
  if ((!finished_ || self.is_left) && found != workers_.end()) {
    if (self.thread.joinable()) self.thread.detach();
    workers_.erase(found);
  }
  ended_.notify_all();
}

std::size_t ActorPool::finish(Clock::duration wait) {
  std::unique_lock lock(mutex_);
  finished_ = true;
  changed_.notify_all();
  if (sharing_.is_led()) sharing_.wake();
  if (is_here()) return workers_.size();
  const auto are_over = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->is_over; });
  };
  ended_.wait_for(lock, wait, are_over);
  std::list<std::unique_ptr<Worker>> over;
  for (auto at = workers_.begin(); at != workers_.end();) {
    const auto next = std::next(at);
    if ((*at)->is_over) over.splice(over.end(), workers_, at);
    at = next;
  }
  // A queued message may hold its actor.
  auto queued = std::exchange(queue_, {});
  const auto left = workers_.size();
  for (auto& worker : workers_) {
    worker->is_left = true;
    if (worker->thread.joinable()) worker->thread.detach();
  }
  lock.unlock();
  for (auto& worker : over) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  return left;
}

}  // namespace meshbus::mesh_proc

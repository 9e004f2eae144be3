#include "client/python/launcher/helper_threads.h"

#include <csignal>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace meshbus::python {

HelperThreads& HelperThreads::ours() {
  // Never destroyed: its threads may still wait when the process ends.
  static auto* threads = new HelperThreads;
  static pid_t owner = ::getpid();
  if (owner != ::getpid()) {
    threads = new HelperThreads;
    owner = ::getpid();
  }
  return *threads;
}

void HelperThreads::run(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_ < kMost) {
    ++threads_;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { work(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  changed_.notify_one();
}

void HelperThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return !jobs_.empty(); });
    --idle_;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = {};
    lock.lock();
  }
}

}  // namespace meshbus::python

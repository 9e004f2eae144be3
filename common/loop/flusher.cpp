#include "common/loop/flusher.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/masked_thread.h"

namespace meshbus {

Flusher::Flusher(std::function<void()> flush) : flush_(std::move(flush)) {
  ::sem_init(&asked_, /*pshared=*/0, 0);
}

Flusher::~Flusher() {
  stop();
  ::sem_destroy(&asked_);
}

bool Flusher::ask() {
  if (is_asked_.exchange(true)) return true;  // it has not begun yet
  std::call_once(once_, [this] { start(); });
  if (!is_running_) {
    is_asked_ = false;
    return false;
  }
  ::sem_post(&asked_);
  return true;
}

void Flusher::start() {
  if (is_ending_) return;
  try {
    thread_ = start_masked_thread([this] { run(); });
    is_running_ = true;
  } catch (const std::system_error& error) {
    log::warn(std::string("no thread for sending beside the loop: ") + error.what());
  }
}

void Flusher::run() {
  ::pthread_setname_np(::pthread_self(), "meshbus-flush");
  // Allowed to everybody; without it packs are smaller.
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
  for (;;) {
    while (::sem_wait(&asked_) != 0 && errno == EINTR) {
    }
    if (is_ending_) return;
    is_asked_ = false;
    flush_();
  }
}

void Flusher::stop() {
  if (is_ending_.exchange(true)) return;
  std::call_once(once_, [] {});
  if (!thread_.joinable()) return;
  ::sem_post(&asked_);
  thread_.join();
  is_running_ = false;
}

}  // namespace meshbus

#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace meshbus {

/// A thread that takes no signals: they are for the launcher's own threads.
template <typename Function>
std::thread start_masked_thread(Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace meshbus

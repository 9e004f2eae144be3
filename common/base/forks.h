#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace meshbus {

/// How often this process was forked from one that had asked already: a different answer later
/// means that the caller is in a child of fork(). Costs no system call.
inline unsigned count_forks() noexcept {
  static std::atomic<unsigned> forks{0};
  [[maybe_unused]] static const int is_counted =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  return forks.load(std::memory_order_relaxed);
}

/// The process that made this, as its children of fork() see it.
class OwnProcess {
 public:
  /// False in a child of fork(). Costs no system call.
  bool is_here() const noexcept { return forks_ == count_forks(); }
  pid_t pid() const noexcept { return pid_; }

 private:
  unsigned forks_ = count_forks();
  pid_t pid_ = ::getpid();
};

}  // namespace meshbus

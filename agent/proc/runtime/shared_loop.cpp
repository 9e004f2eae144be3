#include "agent/proc/runtime/shared_loop.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace meshbus::mesh_proc {
namespace {

/// While it lasts the thread takes no signal.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void SharedLoop::start(std::function<void()> body) {
  // The hidden thread must not be the one that a signal of the program is delivered to.
  const NoSignals inherited;
  thread_ = std::thread([body = std::move(body)] {
    is_here_ = true;
    ::pthread_setname_np(::pthread_self(), "meshbus");
    body();
  });
}

void SharedLoop::turn(WorkQueue& work, bool has_work, ActorPool& pool) {
  work.join_loop();
  const auto wake = [this] { reactor_.wake(); };
  const auto help_with_handlers = [this, &work, &pool] {
    turn_meanwhile([&work, &pool, before = pool.batches()] {
      return work.is_wanted() || pool.batches() != before;
    });
  };
  const auto help_with_actors = [this, &work, &pool] {
    turn_meanwhile([&work, &pool, before = work.pushes()] {
      return pool.is_wanted() || work.pushes() != before;
    });
  };
  if (has_work) work.share_loop(help_with_handlers, wake);
  pool.share_loop(help_with_actors, wake);
  while (!is_stopped_) {
    reactor_.run_until([&work, &pool] { return work.is_missed() || pool.is_missed(); });
    work.promote();
    pool.promote();
  }
  is_helped_.wait(true);
}

void SharedLoop::stop() {
  is_stopped_ = true;
  reactor_.stop();
}

void SharedLoop::turn_meanwhile(const std::function<bool()>& is_enough) {
  if (is_helped_.exchange(true)) return reactor_.wake();  // for what this one has posted
  {
    // A signal of the program must not interrupt what moves bytes.
    const NoSignals meanwhile;
    is_here_ = true;
    if (!is_stopped_) reactor_.run_until(is_enough);
    is_here_ = false;
  }
  is_helped_ = false;
  is_helped_.notify_all();
}

}  // namespace meshbus::mesh_proc

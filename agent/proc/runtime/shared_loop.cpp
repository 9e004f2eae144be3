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
  // A turn sees out the threads that it has brought something for.
  const auto wake = [this] {
    if (!reactor_.is_in_turn()) reactor_.wake();
  };
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
  reactor_.run_for_all();
  is_helped_.wait(true);
}

void SharedLoop::stop() {
  is_stopped_ = true;
  reactor_.stop();
}

void SharedLoop::turn_meanwhile(const std::function<bool()>& is_enough) {
  // What comes for one of these while a thread of the program waits in the loop wakes it directly.
  if (reactor_.has_waiter() || is_helped_.exchange(true)) return reactor_.wake_for_posted();
  {
    is_here_ = true;
    // A thread that waits for an answer does not send this one away, but finds it gone once it was
    // in the way.
    const auto here = std::this_thread::get_id();
    const auto is_enough_here = [&] {
      return is_enough() || (reactor_.has_waiter() && std::this_thread::get_id() == here);
    };
    if (!is_stopped_) reactor_.run_until(is_enough_here);
    is_here_ = false;
  }
  is_helped_ = false;
  is_helped_.notify_all();
}

void SharedLoop::turn_until(const std::function<bool()>& is_done) noexcept {
  const bool was_here = std::exchange(is_here_, true);
  reactor_.wait_until(is_done);
  is_here_ = was_here;
}

}  // namespace meshbus::mesh_proc

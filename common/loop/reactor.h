#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/loop/aside.h"
#include "common/loop/loop_guests.h"
#include "common/loop/turn_lock.h"

namespace meshbus {

/// The one loop of a process: descriptors, sockets, timers and posted work in one epoll set.
///
/// Everything runs on the thread that calls run() (or turn()); only post(), wake() and stop() may
/// be called from elsewhere. Handlers must not block; a turn longer than 50 ms is logged and
/// counted. Handlers may add and remove watches and timers, their own included, at any time.
/// Threads that all call run_until() share the loop: one turn runs at a time, on one of them.
///
/// A turn is: wait, ready descriptors, posted work, ready sockets, due timers (a bounded number),
/// turn-end hooks. What has come is seen before what is late: a process that was stopped hears the
/// answers that wait for it before it gives up on them. Hooks are where queues are flushed, so that
/// all that one turn produced for a peer leaves in one piece.
/// Large because: descriptors, sockets, timers and posted work meet in one turn, which threads may
/// share; LoopGuests and Aside decide which of these wakes.
class Reactor {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Duration = Clock::duration;
  using TimerId = std::uint64_t;
  using Task = std::function<void()>;
  using FdHandler = std::function<void(std::uint32_t events)>;
  /// Takes what is there, at most a bounded share of it. Returns true when it stopped early and
  /// wants to be called again next turn.
  using SocketHandler = std::function<bool()>;

  /// `now` is the clock for timers; tests pass their own and drive turn() by hand.
  explicit Reactor(std::function<Time()> now = [] { return Clock::now(); });
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Calls `handler` while `fd` is ready for `events` (EPOLLIN, EPOLLOUT; level-triggered). The
  /// caller keeps the descriptor open until forget(): forget first, then close. Watching a
  /// descriptor again replaces what was there.
  void watch(int fd, std::uint32_t events, FdHandler handler);
  void forget(int fd);

  /// Whether the socket behind a key has something to receive.
  using Readable = bool (*)(void* key);
  /// The same for a socket, edge-triggered: `handler` is called when one of `events` has come
  /// again. `key` stands for the socket. `is_readable`: it is also asked before the loop sleeps
  /// (see watch_zmq()).
  void watch_edges(void* key, int fd, std::uint32_t events, SocketHandler handler,
                   Readable is_readable = nullptr);
  void forget_socket(void* socket);
  /// Calls the handler of that socket in the next turn, as if it had asked for that.
  void call_again(void* socket);

  /// Runs `task` once, at the first turn at or after that time. Returns an id that is never reused.
  TimerId at(Time when, Task task);
  TimerId after(Duration delay, Task task) { return at(now() + delay, std::move(task)); }
  /// Cancelling what has run or was cancelled is allowed and does nothing.
  void cancel(TimerId id);

  /// Runs at the end of every turn until forgotten; see the class comment.
  std::uint64_t add_turn_end(Task hook);
  void forget_turn_end(std::uint64_t id);

  /// From any thread: run `task` on the reactor's thread, in order. Tasks that are still queued
  /// when the reactor is destroyed are destroyed.
  void post(Task task);
  /// The same for a thread that goes on to run_until() at once, or else calls wake(): nobody is
  /// woken for it.
  void post_quietly(Task task);
  /// From any thread: one of the threads in run_until() asks again whether it is enough.
  void wake();
  /// The same if something is posted.
  void wake_for_posted();
  /// From any thread or handler: run() returns after the turn, run_until() on every thread and for
  /// good.
  void stop();

  /// Turns until stop().
  void run();
  /// Turns until stop(), or until `is_enough`, which is asked between turns, by any thread that is
  /// here. Several threads may wait here: the one that came last is woken first; a thread that has
  /// turned the loop sees out those that have enough now; and a thread that leaves while there is
  /// something to do wakes another one. Only with timers by the steady clock.
  void run_until(const std::function<bool()>& is_enough) { take_turns(is_enough, Stays::no); }
  /// As run_until(), for a thread that waits for what a turn brings, so that this need not wake one
  /// thread after the other. One at a time: returns at once while another thread does so, in a
  /// turn, and after stop(). A handler that throws ends the process, as on the loop's own thread.
  void wait_until(const std::function<bool()>& is_done) noexcept;
  /// Whether a thread is in wait_until().
  bool has_waiter() const noexcept { return guests_.has_waiter(); }
  /// Turns until stop(), and until there is no waiter. While other threads come again and again,
  /// this one steps aside (Aside): then what comes right after their last visit waits for an eighth
  /// of the time that they have done so, 3 ms at most, unless it is posted.
  void run_for_all();
  /// One turn that waits `max_wait` at most.
  void turn(Duration max_wait);

  /// While it lasts its thread is between two turns and may use all that lives on the reactor's
  /// thread. It sends nothing by itself: hooks at turn ends do not run. It ends on its own thread.
  class Visit {
   public:
    Visit(Visit&& other) noexcept
        : reactor_(std::exchange(other.reactor_, nullptr)),
          outer_(other.outer_),
          lock_(std::move(other.lock_)) {}
    Visit& operator=(Visit&&) = delete;
    /// Has the reactor notice timers and posted work of the visitor.
    ~Visit();
    /// False when a turn was running: this is no visit.
    explicit operator bool() const noexcept { return reactor_ != nullptr; }

   private:
    friend class Reactor;
    Visit(Reactor* reactor, std::unique_lock<TurnLock> lock);
    Reactor* reactor_;
    const Reactor* outer_ = nullptr;
    std::unique_lock<TurnLock> lock_;
  };
  /// For any thread that is not in a turn, of a reactor whose threads are in run_until(). Waits for
  /// the end of the turn that runs, and for the threads that came before.
  Visit visit() { return {this, std::unique_lock(turns_)}; }
  /// The same; does not wait, and lets threads that do go first.
  Visit try_visit();

  Time now() const { return now_(); }
  /// Whether the caller is in a turn of this reactor, or visits it.
  bool is_in_turn() const noexcept { return in_turn_ == this; }
  /// Whether the caller is on the thread that runs this reactor. True before the first turn.
  bool is_here() const {
    return thread_ == std::thread::id() || thread_ == std::this_thread::get_id();
  }
  std::uint64_t long_turns() const noexcept { return long_turns_; }

 private:
  struct Watch {
    std::uint64_t generation;
    std::shared_ptr<FdHandler> handler;
  };
  struct Socket {
    int fd;
    std::shared_ptr<SocketHandler> handler;
    Readable is_readable = nullptr;
    /// Its handler is to be called in this turn, or the next one.
    bool is_ready = true;
  };

  enum class Stays : std::uint8_t { no, yes };

  /// The reactor that this thread is in a turn of.
  static inline thread_local const Reactor* in_turn_ = nullptr;

  /// `stays`: see run_for_all().
  void take_turns(const std::function<bool()>& is_enough, Stays stays);
  int wait_ms(Duration max_wait);
  /// Whether a socket has something to receive, now or left over.
  bool look_at_sockets();
  /// Has the descriptor of timers become readable when the first of them is due.
  void arm_timers();
  void run_turn(const epoll_event* events, int count);
  void run_posted();
  void run_timers();
  void run_fds(const epoll_event* events, int count);
  void run_sockets();
  void run_turn_ends();

  std::function<Time()> now_;
  UniqueFd epoll_;
  UniqueFd wake_;
  /// Held during a turn of run_until(). It guards what follows.
  TurnLock turns_;
  LoopGuests guests_;
  Aside aside_;
  UniqueFd timer_fd_;
  Time armed_for_ = Time::max();
  std::thread::id thread_;
  std::unordered_map<int, Watch> watches_;
  std::uint64_t next_generation_ = 1;
  std::map<void*, Socket> sockets_;
  /// The sockets that are ready in the present turn.
  std::vector<void*> ready_;
  std::map<std::pair<Time, TimerId>, Task> timers_;
  std::unordered_map<TimerId, Time> timer_times_;
  TimerId next_timer_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Task>> turn_ends_;
  std::uint64_t next_turn_end_ = 1;
  std::mutex mutex_;
  std::vector<Task> posted_;             // guarded by mutex_
  std::atomic<bool> has_posted_{false};  // written with the mutex held, read without
  std::atomic<bool> is_stopping_{false};
  std::uint64_t long_turns_ = 0;
};

}  // namespace meshbus

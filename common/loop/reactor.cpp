#include "common/loop/reactor.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <system_error>

#include "common/base/log.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLongTurn{50};
/// Due timers in one turn: what comes meanwhile waits for no more of them. Each may open a
/// connection, which takes some 0.1 ms.
constexpr int kMostTimers = 8;

/// A clock that is cheaper than Clock and goes in steps of 4 ms, good enough for kLongTurn.
std::chrono::nanoseconds coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// What epoll carries: the descriptor and the generation of its watch, so that an event for a watch
/// that was replaced meanwhile is seen as old.
std::uint64_t pack(int fd, std::uint64_t generation) {
  return (generation << 32) | static_cast<std::uint32_t>(fd);
}

}  // namespace

Reactor::Reactor(std::function<Time()> now)
    : now_(std::move(now)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_.get() < 0 || wake_.get() < 0)
    throw std::system_error(errno, std::generic_category(), "reactor: epoll_create1/eventfd");
  // Edge-triggered: each write wakes one thread, once, and nobody has to read it.
  watch(wake_.get(), EPOLLIN | EPOLLET, [](std::uint32_t) {});
}

Reactor::~Reactor() = default;

void Reactor::watch(int fd, std::uint32_t events, FdHandler handler) {
  const auto generation = next_generation_++ & 0xffffffffU;
  epoll_event event{};
  event.events = events;
  event.data.u64 = pack(fd, generation);
  const bool known = watches_.contains(fd);
  if (epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0) {
    // A descriptor that was closed before forget() has left the set by itself: add it again.
    if (!(known && errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0))
      throw std::system_error(errno, std::generic_category(),
                              "reactor: cannot watch descriptor " + std::to_string(fd));
  }
  watches_[fd] = Watch{generation, std::make_shared<FdHandler>(std::move(handler))};
}

void Reactor::forget(int fd) {
  if (watches_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Reactor::watch_edges(void* key, int fd, std::uint32_t events, SocketHandler handler,
                          Readable is_readable) {
  sockets_[key] = Socket{fd, std::make_shared<SocketHandler>(std::move(handler)), is_readable};
  watch(fd, events | EPOLLET, [this, key](std::uint32_t) { call_again(key); });
}

void Reactor::call_again(void* socket) {
  if (const auto found = sockets_.find(socket); found != sockets_.end())
    found->second.is_ready = true;
}

void Reactor::forget_socket(void* socket) {
  const auto found = sockets_.find(socket);
  if (found == sockets_.end()) return;
  forget(found->second.fd);
  sockets_.erase(found);
}

Reactor::TimerId Reactor::at(Time when, Task task) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

void Reactor::cancel(TimerId id) {
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

std::uint64_t Reactor::add_turn_end(Task hook) {
  turn_ends_.emplace(next_turn_end_, std::make_shared<Task>(std::move(hook)));
  return next_turn_end_++;
}

void Reactor::forget_turn_end(std::uint64_t id) {
  turn_ends_.erase(id);
}

void Reactor::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
    has_posted_ = true;
    if (posted_.size() > 1) return;  // the thread that queued the first one has woken the loop
  }
  wake();
}

void Reactor::post_quietly(Task task) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(task));
  has_posted_ = true;
}

void Reactor::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] auto n = ::write(wake_.get(), &one, sizeof one);
  aside_.end();
}

void Reactor::wake_for_posted() {
  if (has_posted_) wake();
}

void Reactor::stop() {
  is_stopping_ = true;
  wake();
}

void Reactor::run() {
  while (!is_stopping_.exchange(false)) turn(std::chrono::hours(1));
}

void Reactor::run_for_all() {
  take_turns([] { return false; }, Stays::yes);
  guests_.wait_for_waiter();
}

void Reactor::wait_until(const std::function<bool()>& is_done) noexcept {
  if (is_in_turn() || !guests_.become_waiter()) return;
  take_turns(is_done, Stays::no);
  guests_.stop_waiting();
}

void Reactor::take_turns(const std::function<bool()>& is_enough, Stays stays) {
  std::array<epoll_event, 64> events;
  std::unique_lock lock(turns_);
  const bool is_visit = stays == Stays::no && !is_stopping_;
  if (is_visit) aside_.note_coming();
  // Handlers may throw through this.
  std::optional<LoopGuests::Guest> self(std::in_place, guests_, is_enough);
  while (!is_stopping_ && !is_enough()) {
    if (guests_.see_out(*self, lock, [this] { wake(); })) continue;
    int count = 0;
    if (!has_posted_) {
      if (stays == Stays::yes && aside_.is_wanted()) {
        aside_.leave_loop();
        lock.unlock();
        aside_.stay();
        lock.lock();
        continue;
      }
      const int wait = look_at_sockets() ? 0 : -1;
      arm_timers();
      self->fall_asleep();
      lock.unlock();
      count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait);
      lock.lock();
      self->wake_up();
    }
    run_turn(events.data(), std::max(count, 0));
  }
  self.reset();
  if (is_visit) aside_.note_leaving();
  // For the others, which sleep on.
  arm_timers();
  if (is_stopping_ || has_posted_ || look_at_sockets() || guests_.has_overdue()) wake();
}

Reactor::Visit::Visit(Reactor* reactor, std::unique_lock<TurnLock> lock)
    : reactor_(reactor), lock_(std::move(lock)) {
  if (reactor_ == nullptr) return;
  reactor_->thread_ = std::this_thread::get_id();
  outer_ = std::exchange(in_turn_, reactor_);
}

Reactor::Visit::~Visit() {
  if (reactor_ == nullptr) return;
  reactor_->arm_timers();
  const bool is_wanted =
      reactor_->look_at_sockets() || reactor_->has_posted_ || reactor_->guests_.has_overdue();
  in_turn_ = outer_;
  lock_.unlock();
  if (is_wanted) reactor_->wake();
}

Reactor::Visit Reactor::try_visit() {
  std::unique_lock lock(turns_, std::try_to_lock);
  Reactor* const visited = lock.owns_lock() ? this : nullptr;
  return {visited, std::move(lock)};
}

void Reactor::arm_timers() {
  if (timer_fd_.get() < 0) {
    timer_fd_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (timer_fd_.get() < 0)
      throw std::system_error(errno, std::generic_category(), "reactor: timerfd_create");
    watch(timer_fd_.get(), EPOLLIN | EPOLLET, [this](std::uint32_t) { armed_for_ = Time::max(); });
  }
  // One that goes off too early is cheaper than setting it whenever a timer is cancelled.
  if (timers_.empty() || timers_.begin()->first.first >= armed_for_) return;
  armed_for_ = timers_.begin()->first.first;
  const auto at = std::max<Duration>(armed_for_.time_since_epoch(), std::chrono::nanoseconds(1));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (at - seconds).count();
  timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

bool Reactor::look_at_sockets() {
  bool is_ready = false;
  for (auto& [socket, entry] : sockets_) {
    if (!entry.is_ready && entry.is_readable != nullptr) entry.is_ready = entry.is_readable(socket);
    is_ready = is_ready || entry.is_ready;
  }
  return is_ready;
}

int Reactor::wait_ms(Duration max_wait) {
  Duration wait = max_wait;
  if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first.first - now());
  if (look_at_sockets() || wait <= Duration::zero()) return 0;
  return static_cast<int>(std::min<std::int64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(wait).count(), 3'600'000));
}

void Reactor::turn(Duration max_wait) {
  std::array<epoll_event, 256> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms(max_wait));
  run_turn(events.data(), std::max(count, 0));
}

void Reactor::run_turn(const epoll_event* events, int count) {
  thread_ = std::this_thread::get_id();
  // Handlers of tests and programs may throw through this.
  const struct Mark {
    explicit Mark(const Reactor* here) : outer(std::exchange(in_turn_, here)) {}
    ~Mark() { in_turn_ = outer; }
    const Reactor* outer;
  } mark(this);
  const auto begin = coarse_now();
  run_fds(events, count);
  // After the wait, which takes the wake-up: what is posted after that wakes again.
  run_posted();
  run_sockets();
  run_timers();
  run_turn_ends();
  const auto took = coarse_now() - begin;
  if (took > kLongTurn) {
    ++long_turns_;
    log::info("reactor: a turn took " +
              std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()) +
              " ms (limit 50)");
  }
}

void Reactor::run_posted() {
  if (!has_posted_) return;
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
    has_posted_ = false;
  }
  for (auto& task : tasks) task();
}

void Reactor::run_timers() {
  const auto until = now();
  // Only those that were due at the start: a timer that sets itself again for "now" waits for the
  // next turn.
  const TimerId last = next_timer_;
  int done = 0;
  for (auto next = timers_.begin();
       done < kMostTimers && next != timers_.end() && next->first.first <= until;) {
    if (next->first.second >= last) {
      ++next;
      continue;
    }
    const Task task = std::move(next->second);
    timer_times_.erase(next->first.second);
    timers_.erase(next);
    task();
    ++done;
    next = timers_.begin();
  }
}

void Reactor::run_fds(const epoll_event* events, int count) {
  for (int i = 0; i < count; ++i) {
    const int fd = static_cast<int>(events[i].data.u64 & 0xffffffffU);
    const auto found = watches_.find(fd);
    if (found == watches_.end() || found->second.generation != events[i].data.u64 >> 32) continue;
    const auto handler = found->second.handler;  // outlives a forget() from inside
    (*handler)(events[i].events);
  }
}

void Reactor::run_sockets() {
  ready_.clear();
  for (const auto& [socket, entry] : sockets_) {
    if (entry.is_ready) ready_.push_back(socket);
  }
  for (void* socket : ready_) {
    auto found = sockets_.find(socket);
    if (found == sockets_.end()) continue;
    const auto handler = found->second.handler;
    found->second.is_ready = false;
    if (!(*handler)()) continue;
    found = sockets_.find(socket);
    if (found != sockets_.end() && found->second.handler == handler) found->second.is_ready = true;
  }
}

void Reactor::run_turn_ends() {
  for (auto at = turn_ends_.begin(); at != turn_ends_.end();) {
    const auto [id, hook] = *at;  // outlives a forget from inside
    (*hook)();
    at = turn_ends_.upper_bound(id);
  }
}

}  // namespace meshbus

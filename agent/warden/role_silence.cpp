#include "agent/warden/role_silence.h"

#include <algorithm>
#include <utility>

namespace meshbus::warden {

namespace {

using std::chrono::nanoseconds;

bool is_dead(char state) {
  return state == 'Z' || state == 'X';
}

bool is_stopped(char state) {
  return state == 'T' || state == 't';
}

}  // namespace

void RoleSilence::start_anew(Time now) {
  began_ = now;
  told_ = now;
  counted_ = {};
  by_cpu_ = {};
  by_device_ = {};
}

Silence RoleSilence::on_look(Time now, std::vector<ThreadLook> threads, nanoseconds limit) {
  if (threads.empty() || is_dead(threads.front().state)) return Silence::ended;
  const char state = threads.front().state;
  if (looked_) add(now - std::max(*looked_, began_), threads);
  looked_ = now;
  before_ = std::move(threads);
  if (counted_ >= limit) return is_stopped(state) ? Silence::stopped : Silence::stuck;
  if (now - told_ < limit || by_cpu_ + by_device_ == nanoseconds(0)) return Silence::brief;
  told_ = now;
  return by_device_ > by_cpu_ ? Silence::waits_for_device : Silence::waits_for_cpu;
}

RoleSilence::Share RoleSilence::share_of(const ThreadLook& thread, nanoseconds span) const {
  const auto same = [&](const ThreadLook& one) { return one.tid == thread.tid; };
  const auto found = std::find_if(before_.begin(), before_.end(), same);
  const ThreadLook before = found != before_.end() ? *found : ThreadLook{};
  if (thread.state == 'D') return {nanoseconds(0), Silence::waits_for_device};
  // A runnable thread had what it ran: the wait that goes on is not in `waited`.
  const auto had =
      thread.state == 'R' ? thread.ran - before.ran : span - (thread.waited - before.waited);
  return {std::clamp(had, nanoseconds(0), span), Silence::waits_for_cpu};
}

void RoleSilence::add(nanoseconds span, const std::vector<ThreadLook>& threads) {
  if (span <= nanoseconds(0)) return;
  Share least = share_of(threads.front(), span);
  // The main thread may wait for another one; not when it is stopped.
  for (std::size_t i = 1; i < threads.size() && !is_stopped(threads.front().state); ++i) {
    if (is_dead(threads[i].state)) continue;
    if (const Share share = share_of(threads[i], span); share.had < least.had) least = share;
  }
  // Half of the time is enough to say something.
  const auto counts = std::min(2 * least.had, span);
  counted_ += counts;
  (least.kept_by == Silence::waits_for_device ? by_device_ : by_cpu_) += span - counts;
}

}  // namespace meshbus::warden

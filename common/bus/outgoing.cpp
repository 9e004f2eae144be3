#include "common/bus/outgoing.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/block_pool.h"

namespace meshbus {

std::optional<MessagePart> detached_part(Bytes body, const SharedBody* shared) {
  if (body.size() <= kInlineLimit) return std::nullopt;
  if (shared != nullptr) return Bus::share(*shared);
  auto part = BlockPool::part(body.size());
  std::memcpy(part.data(), body.data(), body.size());
  return part;
}

namespace {

/// Whether the socket has room, or has ended, by then.
bool wait_writable(const UniqueFd& socket, Reactor::Time until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Reactor::Clock::now());
    if (left.count() <= 0) return false;
    pollfd room{socket.get(), POLLOUT, 0};
    const int ready = ::poll(&room, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Outgoing::Outgoing(Reactor& reactor, const Bus::Most& most)
    : reactor_(reactor), room_(most), flusher_([this] {
        // The turn that runs, or the one that comes now, flushes in its place.
        if (!flush_here()) reactor_.wake();
      }) {}

Outgoing::~Outgoing() {
  stop();
}

void Outgoing::attach(Bus& bus) {
  bus.share();
  bus_ = &bus;
  reactor_.add_turn_end([this] { report(); });
}

bool Outgoing::send_direct(const Destination& to, std::uint32_t port, Bytes body,
                           std::chrono::milliseconds patience) {
  Bus& bus = *bus_.load(std::memory_order_relaxed);
  DirectPaths::SentNow sent;
  if (reactor_.is_in_turn()) {
    sent = bus.send_direct(to, port, body);
    if (sent.begun != 0) bus.keep_direct(to.proc, sent.begun);
    return sent.has_left || sent.begun != 0;
  }
  if (const auto visit = reactor_.try_visit()) sent = bus.send_direct(to, port, body);
  if (sent.full == nullptr) return sent.has_left;
  const auto until = Reactor::Clock::now() + std::min(patience, kForPath);
  while (sent.full != nullptr) {
    const bool has_room = wait_writable(*sent.full, until);
    if (sent.begun == 0) {
      if (!has_room) return false;
      const auto visit = reactor_.try_visit();
      if (!visit) return false;
      sent = bus.send_direct(to, port, body);
    } else {
      const auto visit = reactor_.visit();
      if (has_room) {
        sent = bus.go_on_direct(to.proc, sent.begun);
        continue;
      }
      bus.keep_direct(to.proc, sent.begun);
      report();
      return true;
    }
  }
  return sent.has_left;
}

Result<void> Outgoing::wait_for_room(const Bus::Load& size, std::chrono::milliseconds patience,
                                     OutgoingRoom::Time& until) {
  const Bus& bus = *bus_.load();
  if (patience <= std::chrono::milliseconds(0) || reactor_.is_in_turn())
    return fail(room_.is_full(bus.load()));
  if (until == OutgoingRoom::Time{})
    until = std::chrono::steady_clock::now() + std::min(patience, kLongest);
  flush_now();
  report();
  if (!room_.wait(size, until)) return fail(room_.is_full(bus.load()));
  return {};
}

void Outgoing::see_off(bool is_first, bool is_full) {
  if (!is_first && !is_full) return;  // somebody has been asked to flush
  if (reactor_.is_in_turn()) return;  // it ends with a flush
  if ((is_full || is_quiet()) && flush_here()) return;
  if (!flusher_.ask()) reactor_.wake();
}

bool Outgoing::is_quiet() const noexcept {
  return bus_.load(std::memory_order_relaxed)->sent_at() + kPause < Reactor::Clock::now();
}

bool Outgoing::flush_here() {
  const auto visit = reactor_.try_visit();
  if (!visit) return false;
  bus_.load(std::memory_order_relaxed)->flush();
  report();
  return true;
}

void Outgoing::flush_now() {
  if (!reactor_.is_in_turn() && !flush_here() && !flusher_.ask()) reactor_.wake();
}

void Outgoing::report() {
  room_.report(bus_.load(std::memory_order_relaxed)->load());
}

void Outgoing::see_off_visit(bool is_last) {
  if (is_last || is_quiet()) {
    bus_.load()->flush();
    report();
  } else if (!flusher_.ask()) {
    reactor_.wake();
  }
}

Result<void> Outgoing::use(const Use& use, bool is_last) {
  if (reactor_.is_in_turn()) return use(*bus_.load());
  const auto visit = reactor_.visit();
  auto done = use(*bus_.load());
  see_off_visit(is_last);
  return done;
}

Result<void> Outgoing::use_when_room(const Bus::Load& size, std::chrono::milliseconds patience,
                                     const Use& use) {
  Bus& bus = *bus_.load();
  if (reactor_.is_in_turn()) {
    if (!room_.has_room(bus.load(), size)) return fail(room_.is_full(bus.load()));
    return use(bus);
  }
  OutgoingRoom::Time until{};
  for (;;) {
    {
      const auto visit = reactor_.visit();
      if (room_.has_room(bus.load(), size)) {
        auto done = use(bus);
        see_off_visit(/*is_last=*/false);
        return done;
      }
    }
    if (auto room = wait_for_room(size, patience, until); !room) return room;
  }
}

}  // namespace meshbus

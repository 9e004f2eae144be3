#include "common/bus/outgoing.h"

#include <poll.h>

#include <algorithm>
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

Outgoing::Outgoing(Reactor& reactor, const Bus::Most& most)
    : reactor_(reactor), room_(most), flusher_([this] {
        // The turn that runs, or the one that comes now, flushes in its place.
        if (!flush_here()) reactor_.wake();
      }) {}

Outgoing::~Outgoing() {
  stop();
}

void Outgoing::attach(Bus& bus) {
  bus_ = &bus;
  reactor_.add_turn_end([this] { report(); });
}

bool Outgoing::send_direct(const Destination& to, std::uint32_t port, Bytes body,
                           std::chrono::milliseconds patience) {
  Bus& bus = *bus_.load(std::memory_order_relaxed);
  if (reactor_.is_in_turn()) return bus.send_direct(to, port, body).has_left;
  std::optional<Reactor::Time> until;
  for (;;) {
    DirectPaths::SentNow sent;
    if (const auto visit = reactor_.try_visit()) sent = bus.send_direct(to, port, body);
    if (sent.full == nullptr) return sent.has_left;
    const auto now = Reactor::Clock::now();
    if (!until) until = now + std::min(patience, kForPath);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - now);
    pollfd room{sent.full->get(), POLLOUT, 0};
    if (left.count() <= 0 || ::poll(&room, 1, static_cast<int>(left.count())) <= 0) return false;
  }
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

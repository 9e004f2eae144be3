#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "common/base/message_part.h"
#include "common/bus/bus.h"
#include "common/bus/outgoing_room.h"
#include "common/loop/flusher.h"
#include "common/loop/reactor.h"
#include "common/wire/frame.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"

namespace meshbus {

/// The message part that a body too large to lie in the frame becomes; nothing for a smaller one.
/// `shared`: the body can be had without a copy; or null.
std::optional<MessagePart> detached_part(Bytes body, const SharedBody* shared);

/// Sends messages for threads that are not the reactor's (decision 30). They are packed on the
/// sender's own thread, and leave at once after a pause, with a full pack, when the loop turns, or
/// when the sender leaves the CPU to the flusher; whichever comes first. Any thread, unless it says
/// otherwise; not in a child of fork().
class Outgoing {
 public:
  /// So much may wait to leave before senders wait.
  Outgoing(Reactor& reactor, const Bus::Most& most);
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  /// From now on it can be used, until the bus or this ends. Reactor's thread.
  void attach(Bus& bus);
  /// No flush begins any more. Neither in a turn nor by a visitor.
  void stop() { flusher_.stop(); }

  /// `to` has the keys; `whole()` makes a Destination with its host's address, and is called when
  /// our broker may have to hear it. `shared`: the body can be had without a copy. Errors:
  /// queue_full, when there is no room within `patience`, or no patience because this is a turn.
  template <typename Whole>
  Result<void> send(const Destination& to, Whole whole, std::uint32_t port, Bytes body,
                    const SharedBody* shared, std::chrono::milliseconds patience);
  using Use = std::function<Result<void>(Bus&)>;
  /// Runs `use(bus)` between two turns, or in this one, and flushes as send() does, or at once when
  /// the caller has nothing more to do.
  Result<void> use(const Use& use, bool is_last = false);
  /// The same once there is room for so much. Errors: as send(), and those of `use`.
  Result<void> use_when_room(const Bus::Load& size, std::chrono::milliseconds patience,
                             const Use& use);
  /// What was handed to the bus leaves now: the caller is about to wait for what comes of it.
  void flush_now();

 private:
  /// Sends are this close together when they come in a burst, which is packed.
  static constexpr std::chrono::microseconds kPause{20};
  /// How long a large body waits for room in a direct path, at most.
  static constexpr std::chrono::milliseconds kForPath{20};
  /// What a patience is cut to, so that adding it to now cannot overflow.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

  /// Waits until there is room. Errors: queue_full, when no time is left for that. `until`: zero at
  /// first.
  Result<void> wait_for_room(const Bus::Load& size, std::chrono::milliseconds patience,
                             OutgoingRoom::Time& until);
  /// As Bus::send_direct(), unless the loop turns at the moment on another thread. Waits a while
  /// for room in the path: what waits in memory is copied once more, and leaves the caches.
  bool send_direct(const Destination& to, std::uint32_t port, Bytes body,
                   std::chrono::milliseconds patience);
  /// Has what was packed leave; see the class comment.
  void see_off(bool is_first, bool is_full);
  bool is_quiet() const noexcept;
  /// The same within a visit.
  void see_off_visit(bool is_last);
  /// False when the loop turns at the moment.
  bool flush_here();
  void report();

  Reactor& reactor_;
  std::atomic<Bus*> bus_{nullptr};
  OutgoingRoom room_;
  Flusher flusher_;
};

template <typename Whole>
Result<void> Outgoing::send(const Destination& to, Whole whole, std::uint32_t port, Bytes body,
                            const SharedBody* shared, std::chrono::milliseconds patience) {
  Bus& bus = *bus_.load(std::memory_order_relaxed);
  if (shared == nullptr && body.size() > kInlineLimit && send_direct(to, port, body, patience))
    return {};
  auto part = detached_part(body, shared);
  OutgoingRoom::Time until{};
  const Bus::Load size{body.size() + sizeof(wire::Envelope), 1};
  for (;;) {
    const auto packed =
        bus.pack(to.proc, to.host, port, body, part ? &*part : nullptr, room_.most());
    if (packed.outcome == Bus::Packed::Outcome::packed) {
      see_off(packed.is_first, packed.is_full);
      return {};
    }
    if (packed.outcome == Bus::Packed::Outcome::not_now) {
      return use_when_room(size, patience, [&](Bus& all) {
        return shared != nullptr ? all.send(whole(), port, *shared) : all.send(whole(), port, body);
      });
    }
    if (auto room = wait_for_room(size, patience, until); !room) return room;
  }
}

}  // namespace meshbus

#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>

#include "common/bus/bus.h"
#include "common/loop/flusher.h"
#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/result.h"

namespace meshbus {

class ContextCore;

/// Sends a launcher's messages from the threads that call Context::send() (decision 32). Where the
/// way to a proc is known, a message is packed right there; otherwise the caller visits the
/// reactor. Any thread, unless it says otherwise.
class MessageSender {
 public:
  explicit MessageSender(ContextCore& core);
  MessageSender(const MessageSender&) = delete;
  MessageSender& operator=(const MessageSender&) = delete;

  /// Errors: unroutable, queue_full, too_large, host_unreachable.
  Result<void> send(const ProcId& to, std::uint32_t port, const BodyParts& body);
  /// Within a visit or a turn: what was given to `bus` leaves soon, or at once when the caller is
  /// about to wait for what comes of it.
  void see_off(Bus& bus, bool is_urgent);
  /// Within a visit or a turn: from now on every thread looks for the way to each proc again. No
  /// thread uses a Bus that it knew any more when this returns.
  void forget_routes();
  /// No flush begins any more. Not within a turn or a visit.
  void stop() { flusher_.stop(); }

 private:
  /// Senders that come in a burst are this close together; a burst is packed.
  static constexpr std::chrono::microseconds kPause{20};

  /// Sends a body above kBodyLimit, and waits until it has arrived. Errors: would_block too.
  Result<void> send_large(const ProcId& to, std::uint32_t port, const BodyParts& body);
  /// `bytes`: all of the body.
  Result<void> send_by_visit(const ProcId& to, std::uint32_t port, Bytes bytes,
                             const SharedBody* shared);
  /// Has what was packed leave. `is_quiet`: nothing has left for a while.
  void see_off_packed(const Bus::Packed& packed, bool is_quiet);
  /// False when the loop turns at the moment.
  bool flush_here();

  ContextCore& core_;
  /// Differs from that of every other sender of this process.
  const std::uint64_t number_;
  /// Changes with every forget_routes().
  std::atomic<std::uint64_t> routes_{1};
  /// Held by a thread while it packs into a Bus that it knows.
  std::shared_mutex packing_;
  Flusher flusher_;
};

}  // namespace meshbus

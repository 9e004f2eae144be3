#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "broker/peers/credit_ledger.h"
#include "common/base/message_part.h"
#include "common/wire/outbox.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// What waits to leave for one peer, and whose credit it holds. Pure.
class PeerOutbox {
 public:
  PeerOutbox(Outbox::Limits limits, bool is_link) : outbox_(limits, is_link) {}

  /// Queues one message. False when its lane is full; nothing is queued or taken then. Data is
  /// charged to its sender until pop().
  bool push(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Charge& charge) {
    if (!outbox_.push(envelope, body, detached)) return false;
    if (envelope.lane() == wire::Lane::data) ledger_.add(charge, sizeof envelope + body.size());
    return true;
  }
  /// The frame to send next, or null.
  Frame* front() { return outbox_.front(); }
  /// The frame has left: calls each(sender, bytes) for the data in it that was charged.
  template <typename Each>
  void pop(Each&& each) {
    const Frame& frame = *outbox_.front();
    const std::size_t bytes = frame.lane == wire::Lane::data ? frame.bytes : 0;
    outbox_.pop();
    ledger_.release(bytes, std::forward<Each>(each));
  }
  /// Takes out everything, in order, control first: calls each(envelope, body, charge).
  template <typename Each>
  void take_all(Each&& each) {
    outbox_.drain([&](const wire::Envelope& envelope, Bytes body) {
      Charge charge;
      if (envelope.lane() == wire::Lane::data)
        ledger_.release(sizeof envelope + body.size(),
                        [&](ConnectionId sender, std::size_t bytes) { charge = {sender, bytes}; });
      each(envelope, body, charge);
    });
  }
  /// Charges nobody any more for what waits: calls each(sender, bytes).
  template <typename Each>
  void write_off(Each&& each) {
    ledger_.write_off(std::forward<Each>(each));
  }

  bool empty() const noexcept { return outbox_.empty(); }
  bool empty(wire::Lane lane) const noexcept { return outbox_.empty(lane); }
  std::size_t bytes() const noexcept { return outbox_.bytes(); }
  std::size_t count() const noexcept { return outbox_.count(); }

 private:
  Outbox outbox_;
  CreditLedger ledger_;
};

}  // namespace meshbus

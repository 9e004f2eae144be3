#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "common/base/message_part.h"
#include "common/wire/frame.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// What waits to leave for one peer: packed into frames as it comes, control before data, bounded.
/// Pure: it holds no socket.
class Outbox {
 public:
  struct Limits {
    /// Both limits hold for each lane.
    std::size_t bytes;
    std::size_t count;
  };
  explicit Outbox(Limits limits, bool link = false)
      : limits_(limits),
        link_(link),
        lanes_{Queue(wire::Lane::control, link), Queue(wire::Lane::data, link)} {}

  /// Queues one message. False when its lane is full; nothing is queued then.
  bool push(const wire::Envelope& envelope, Bytes body) { return push(envelope, body, nullptr); }
  /// The same; a body that is a message part of its own (`detached`) is moved from, not copied.
  bool push(const wire::Envelope& envelope, Bytes body, MessagePart* detached);
  /// Queues a frame of the data lane that was packed elsewhere, whatever the limits are.
  void push_frame(Frame frame);
  /// An empty one like this.
  Outbox emptied() const { return Outbox(limits_, link_); }
  bool empty() const noexcept { return lanes_[0].count == 0 && lanes_[1].count == 0; }
  bool empty(wire::Lane lane) const noexcept {
    return lanes_[static_cast<std::size_t>(lane)].count == 0;
  }
  /// Whether the pack that grows in that lane is full.
  bool is_full(wire::Lane lane) const noexcept {
    return lanes_[static_cast<std::size_t>(lane)].open.is_full();
  }
  std::size_t bytes() const noexcept { return lanes_[0].bytes + lanes_[1].bytes; }
  std::size_t count() const noexcept { return lanes_[0].count + lanes_[1].count; }

  /// The frame to send next, or nothing. pop() when it is sent.
  Frame* front();
  void pop();
  /// Takes out everything, message by message, in order, control first: for returning it to its
  /// senders.
  void drain(const std::function<void(const wire::Envelope&, Bytes)>& each);

 private:
  struct Queue {
    Queue(wire::Lane lane, bool link) : open(lane, link) {}
    FrameWriter open;
    std::deque<Frame> closed;
    std::size_t bytes = 0;
    std::size_t count = 0;
  };
  Limits limits_;
  bool link_;
  Queue lanes_[2];
};

inline bool Outbox::push(const wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  auto& lane = lanes_[static_cast<std::size_t>(envelope.lane())];
  const std::size_t size = sizeof envelope + body.size();
  // One message always fits, however small the limit.
  if (lane.count > 0 && (lane.bytes + size > limits_.bytes || lane.count + 1 > limits_.count))
    return false;
  if (lane.open.is_full()) lane.closed.push_back(lane.open.finish());
  if (detached != nullptr) {
    lane.open.add_detached(envelope, std::move(*detached));
  } else {
    lane.open.add(envelope, body);
  }
  lane.bytes += size;
  ++lane.count;
  return true;
}

}  // namespace meshbus

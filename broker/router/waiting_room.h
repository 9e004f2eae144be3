#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>

#include "common/base/bytes.h"
#include "common/base/message_part.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Keeps messages for procs of this host that have not registered yet: for a while, in order,
/// bounded. Pure: the time comes from the caller.
class WaitingRoom {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Taker = std::function<void(const wire::Envelope&, Bytes, MessagePart& body)>;
  struct Limits {
    /// How long each message waits.
    std::chrono::milliseconds wait;
    /// All messages together may have so many.
    std::size_t bytes;
    std::size_t count;
  };
  explicit WaitingRoom(Limits limits) : limits_(limits) {}

  /// Keeps a message for its destination_proc. False when there is no room, or no wait is wanted;
  /// `detached` is moved from only when kept.
  bool add(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Time now);
  /// Takes out what waits for that proc, in order.
  void release(std::uint64_t proc, const Taker& take);
  /// Takes out what has waited long enough.
  void expire(Time now, const Taker& take);
  /// When expire() has something to do next.
  std::optional<Time> next_due() const;
  std::size_t count() const noexcept { return count_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::chrono::milliseconds wait() const noexcept { return limits_.wait; }

 private:
  struct Waiting {
    wire::Envelope envelope;
    MessagePart body;
    Time due;
  };
  void take_out(Waiting waiting, const Taker& take);

  Limits limits_;
  std::unordered_map<std::uint64_t, std::deque<Waiting>> procs_;
  /// When the messages are due, in order; an entry whose message was released is skipped.
  struct Due {
    Time time;
    std::uint64_t proc;
  };
  std::deque<Due> dues_;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

}  // namespace meshbus

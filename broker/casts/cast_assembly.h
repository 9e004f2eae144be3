#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "broker/access/recent_set.h"
#include "common/base/bytes.h"
#include "common/base/message_part.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// SHA-512, 64 bytes.
std::string digest_of(Bytes bytes);

/// The receivers' side of casts with detached bodies (relay.fbs): casts whose bodies are still on
/// their way, what came from the same senders behind them, and bodies that came before their casts.
/// Bounded. Pure: the time comes from the caller.
class CastAssembly {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Limits {
    /// What waits behind casts may have so many; so may the bodies that are too early.
    std::size_t bytes;
    std::size_t count;
    /// For the body of a cast.
    std::chrono::milliseconds wait;
  };
  struct Message {
    wire::Envelope envelope;
    /// A cast has none, until its body is here.
    MessagePart body;
    /// The number of a cast; 0 = a message behind one.
    std::uint64_t number = 0;
    std::string digest = {};
    /// A cast whose body did not come in time.
    bool is_late = false;
    Time due = {};
  };

  explicit CastAssembly(Limits limits) : limits_(limits) {}

  /// Whether that message must wait for the body of a cast of its sender.
  bool is_held(const wire::Envelope& envelope) const {
    return senders_.contains(sender_of(envelope));
  }
  /// Adds a cast without its body, or a message that is_held. False when there is no room.
  bool add(Message message, Time now);
  /// Adds the body of the cast of that number.
  void add_body(std::uint64_t number, MessagePart body, Time now);
  /// Takes out what is complete, in order. To be called after each add() and add_body().
  std::vector<Message> take_ready();
  /// Takes out what has waited too long, and what waited behind that alone.
  std::vector<Message> expire(Time now);

  bool empty() const noexcept { return senders_.empty() && bodies_.empty(); }
  /// The number of messages.
  std::size_t count() const noexcept { return count_; }
  /// The bytes of messages and bodies.
  std::size_t bytes() const noexcept { return bytes_ + early_bytes_; }

 private:
  /// Host, proc and incarnation.
  using Sender = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
  struct Body {
    MessagePart bytes;
    Time due;
  };
  static Sender sender_of(const wire::Envelope& envelope) noexcept {
    return {envelope.source_host(), envelope.source_proc(), envelope.source_incarnation()};
  }
  /// Takes out what is complete at the head of that queue.
  void take_ready(std::deque<Message>& queue, std::vector<Message>& into);
  Message pop(std::deque<Message>& queue);
  void drop_body(std::unordered_map<std::uint64_t, Body>::iterator body);
  static std::size_t size_of(const Message& message) noexcept {
    return sizeof message.envelope + message.body.size() + message.digest.size();
  }

  Limits limits_;
  /// No queue is empty, and the first message of each is a cast.
  std::map<Sender, std::deque<Message>> senders_;
  /// Casts that wait for their bodies.
  std::unordered_map<std::uint64_t, Sender> awaited_;
  std::unordered_map<std::uint64_t, Body> bodies_;
  /// Casts that are done with: another body comes too late.
  RecentSet<std::uint64_t, char> done_{4096};
  /// Where take_ready() has something to look at.
  std::vector<Sender> changed_;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
  std::size_t early_bytes_ = 0;
};

}  // namespace meshbus

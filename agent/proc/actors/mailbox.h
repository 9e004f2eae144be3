#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "meshbus/point.h"
#include "wire/frame_generated.h"

namespace meshbus::mesh_proc {

/// A message or call that waits for its actor.
struct Letter {
  std::uint64_t message = 0;  ///< MessageType::key()
  std::uint32_t from = 0;
  /// The envelope of a message that came by the bus; its answer goes to the source. A message that
  /// the actor sent to itself has the actor's own address as source.
  wire::Envelope envelope = {};
  wire::CallHeader header = {};
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  std::string body = {};
  /// A body that is not copied, and what keeps it; else null.
  Bytes kept_body = {};
  std::shared_ptr<const void> owner = {};
  /// In a cast: where the receiver is in the view that was addressed.
  std::optional<Point> point = {};

  bool is_call() const noexcept { return envelope.kind() == wire::Kind::call; }
  /// What it counts for.
  std::size_t size() const noexcept { return sizeof(Letter) + bytes().size(); }
  Bytes bytes() const noexcept { return owner == nullptr ? Bytes(body) : kept_body; }
};

/// What waits for one actor, in order, bounded in number and bytes; the one that is being handled
/// does not count. Pure.
class Mailbox {
 public:
  struct Limits {
    std::size_t count;
    std::size_t bytes;
  };
  explicit Mailbox(Limits limits) : limits_(limits) {}

  /// False when it is full; nothing has changed then. One letter always fits.
  bool push(Letter letter);
  /// For what was counted elsewhere (delayed messages): always fits.
  void push_always(Letter letter);
  /// Nothing when it is empty.
  std::optional<Letter> pop();
  /// Everything, in order.
  std::deque<Letter> take_all();

  bool is_empty() const noexcept { return letters_.empty(); }
  std::size_t count() const noexcept { return letters_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  const Limits& limits() const noexcept { return limits_; }

 private:
  Limits limits_;
  std::deque<Letter> letters_;
  std::size_t bytes_ = 0;
};

}  // namespace meshbus::mesh_proc

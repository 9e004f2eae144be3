#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/message_part.h"
#include "common/wire/frame.h"

namespace meshbus {

/// Data frames of a session whose messages were not handed out yet; the credit of the broker bounds
/// them. Handlers may clear it or hold it, but not destroy it.
class DataInbox {
 public:
  enum class Outcome {
    /// Nothing is left, or the rest is held.
    done,
    /// The slice of time is over and something is left.
    more,
    /// A frame was malformed; it is gone.
    malformed,
    /// A handler has cleared the inbox.
    cleared,
  };
  /// `reader` reads these parts.
  void push(std::vector<MessagePart> parts, const FrameReader& reader);
  /// Hands out messages for a slice of time: `handler(message, frame)`, which may change the
  /// message; the body lives as long as `frame` is kept. With `all`, everything there is, even
  /// while it is held; malformed frames are left out then.
  template <typename Handler>
  Outcome hand_out(bool all, Handler handler);
  void clear();
  bool empty() const noexcept { return frames_.empty(); }
  /// Bytes that were not handed out.
  std::size_t bytes() const noexcept { return bytes_; }
  bool is_held() const noexcept { return is_held_; }
  void set_held(bool is_held) noexcept { is_held_ = is_held; }

 private:
  /// Messages are handed out for so long before the socket is looked at again: control is never
  /// further away. The clock is looked at less often when messages are quick.
  class Slice {
   public:
    /// A message was handed out, and something is left. The clock runs from the first one on, which
    /// mostly is the only one.
    bool is_over() {
      if (--left_ > 0) return false;
      const auto now = Clock::now();
      left_ = 1;
      if (begin_ == Clock::time_point{}) {
        begin_ = now;
        return false;
      }
      const auto took = now - begin_;
      if (took < kLength / 8) stride_ = std::min(2 * stride_, kMostStride);
      left_ = stride_;
      return took >= kLength;
    }

   private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::microseconds kLength{200};
    static constexpr int kMostStride = 64;
    Clock::time_point begin_{};
    int stride_ = 1;
    int left_ = 1;
  };
  struct Received {
    std::vector<MessagePart> parts;
    FrameReader reader;
    std::size_t bytes;
  };
  std::deque<std::shared_ptr<Received>> frames_;
  std::size_t bytes_ = 0;
  bool is_held_ = false;
  /// Changes with clear().
  std::uint64_t generation_ = 0;
};

template <typename Handler>
DataInbox::Outcome DataInbox::hand_out(bool all, Handler handler) {
  if (frames_.empty() || (is_held_ && !all)) return Outcome::done;
  const auto generation = generation_;
  Slice slice;
  while (!frames_.empty()) {
    // Out of the queue meanwhile: a handler may clear it.
    const std::shared_ptr<Received> frame = std::move(frames_.front());
    frames_.pop_front();
    const std::shared_ptr<const void> owner = frame;
    FrameReader::Message message;
    while (frame->reader.next(message)) {
      handler(message, owner);
      if (generation != generation_) return Outcome::cleared;
      if (all || (frame->reader.is_at_end() && frames_.empty())) continue;
      if (is_held_ || slice.is_over()) {
        frames_.push_front(frame);
        return is_held_ ? Outcome::done : Outcome::more;
      }
    }
    bytes_ -= frame->bytes;
    if (frame->reader.is_malformed() && !all) return Outcome::malformed;
  }
  return Outcome::done;
}

}  // namespace meshbus

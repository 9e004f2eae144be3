#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "common/wire/frame.h"
#include "wire/forward.h"

namespace meshbus {

/// What two brokers remember of the frames between them, so that a connection that breaks loses
/// none and doubles none (spec 9.3): the numbers either way, and the frames that the other broker
/// has not acknowledged. Belongs to one incarnation of the other broker and outlives
/// connections: whichever of them a frame comes by, its number says whether it is new. Pure: it
/// holds no socket and no clock.
///
/// A sender starts each connection with the first frame that is not acknowledged, and frames keep
/// their order in a connection. So a number that is higher than the next one means that the sender
/// has given up what lies between (it has told the senders of these messages).
class LinkStream {
 public:
  /// What must be remembered when everything else may be forgotten.
  struct Memory {
    std::uint64_t incarnation = 0;  ///< The other broker's; 0 = none is known.
    std::uint64_t taken = 0;        ///< The highest number taken from it.
    std::uint64_t sent = 0;         ///< The highest number given to a frame for it.
  };
  /// `window`: bytes of data that may be unacknowledged.
  explicit LinkStream(std::size_t window, Memory memory) : window_(window), memory_(memory) {}

  const Memory& memory() const noexcept { return memory_; }
  /// Another incarnation: what it takes and sends is numbered from 1; our own numbers go on.
  /// Nothing may be kept (see give_up()).
  void begin_incarnation(std::uint64_t incarnation);

  // --- Out ---

  /// Whether such a frame may be sent now. Control has a window of its own, as large, so that data
  /// does not hold it up.
  bool has_room(const Frame& frame) const noexcept;
  /// The number of the frame that is sent next.
  std::uint64_t next_number() const noexcept { return memory_.sent + 1; }
  /// The frame was sent under next_number(); `copy` shares its bytes.
  void keep(Frame copy);
  /// The frame was sent to a broker that acknowledges nothing.
  void pass() noexcept { ++memory_.sent; }
  /// The other broker has taken everything up to that number. Returns how many messages are done
  /// with; a number that was never sent does nothing.
  std::uint64_t acknowledge(std::uint64_t number);
  /// From now on another connection is used: all that is kept is to be sent again.
  void rewind() noexcept { replay_ = 0; }
  /// The next frame to send again, with its number; null when all that is kept was sent by this
  /// connection.
  Frame* replay() noexcept { return replay_ < kept_.size() ? &kept_[replay_] : nullptr; }
  std::uint64_t replay_number() const noexcept { return first_number() + replay_; }
  void replayed() noexcept { ++replay_; }
  /// Forgets what is kept, message by message, in order: it may have arrived or not.
  void give_up(const std::function<void(const wire::Envelope&, Bytes)>& each);

  bool has_kept() const noexcept { return !kept_.empty(); }
  /// Messages that are kept, and bytes.
  std::uint64_t kept() const noexcept { return kept_count_; }
  std::size_t kept_bytes() const noexcept { return bytes_[0] + bytes_[1]; }

  // --- In ---

  /// Whether the frame of that number is new, and is taken with this.
  bool take(std::uint64_t number) noexcept;
  /// For LinkHeader.ack.
  std::uint64_t taken() const noexcept { return memory_.taken; }

 private:
  std::uint64_t first_number() const noexcept { return memory_.sent - kept_.size() + 1; }
  void pop();

  std::size_t window_;
  Memory memory_;
  /// The last frames that were sent, without a gap.
  std::deque<Frame> kept_;
  std::size_t replay_ = 0;
  std::size_t bytes_[2] = {0, 0};  // by lane
  std::uint64_t kept_count_ = 0;
};

}  // namespace meshbus

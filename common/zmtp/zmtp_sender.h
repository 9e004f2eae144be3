#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/message_part.h"

namespace meshbus {

/// Frames of ZMTP on their way into a socket: as many bytes leave as it takes, the rest waits.
class ZmtpSender {
 public:
  enum class Written {
    all,
    /// The socket is full: something is left.
    full,
    /// It cannot be written to any more.
    broken,
  };

  /// Adds a frame behind what is left.
  void add(MessagePart body, std::uint8_t flags);
  Written write(int descriptor);
  bool empty() const noexcept { return frames_.empty(); }

 private:
  struct Piece {
    std::array<std::uint8_t, 9> header{};
    std::size_t header_size = 0;
    MessagePart body;
  };

  std::vector<Piece> frames_;
  /// The first frame that has not left whole, and how many of its bytes have.
  std::size_t next_ = 0, left_ = 0;
};

}  // namespace meshbus

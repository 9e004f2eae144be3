#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/message_part.h"

namespace meshbus {

/// Bytes from a socket on their way into frames of ZMTP: what has been read and not taken, and the
/// frame that is being received, as far as it has come.
class ZmtpReceiver {
 public:
  /// Room for what is read, needed between read() and the next take that finds too little, and so
  /// shared by all connections of a thread. The rest of a larger frame is read where it belongs.
  using Buffer = std::array<char, 16 * 1024>;
  struct Header {
    std::uint64_t size = 0;
    bool has_more = false;
    bool is_command = false;
    /// False: it is no header of ZMTP.
    bool is_valid = true;
  };
  struct Part {
    MessagePart body;
    std::size_t filled = 0;
    bool has_more = false;
    bool is_command = false;
  };

  explicit ZmtpReceiver(Buffer& buffer) : buffer_(&buffer) {}

  /// Reads once, not much more than `most` bytes. As recv(2): 0 at the end, -1 with errno.
  ssize_t read(int descriptor, std::size_t most);
  /// Reads and drops what has come, for a connection that is not heard any more. As recv(2).
  ssize_t drop(int descriptor);
  /// Forgets what has been read.
  void clear();
  std::size_t unread() const noexcept { return filled_ - taken_; }

  /// The next bytes, once so many have come.
  std::optional<std::string> take(std::size_t size);
  /// The header of the next frame, once it has come. begin() follows.
  std::optional<Header> take_header();
  /// Makes room for the body of that frame. Throws std::bad_alloc.
  void begin(const Header& header);
  /// Whether a frame has begun.
  bool has_begun() const noexcept { return part_.has_value(); }
  /// The frame that has begun, once it is whole.
  std::optional<Part> take_part();

 private:
  /// Moves bytes from the buffer to partial_ until there are so many. False when there are fewer.
  bool collect(std::size_t size);

  Buffer* buffer_;
  /// What has come of the buffer and was not taken lies in [taken_, filled_).
  std::size_t taken_ = 0, filled_ = 0;
  /// The beginning of a greeting or header whose rest has not come.
  std::string partial_;
  std::optional<Part> part_;
};

}  // namespace meshbus

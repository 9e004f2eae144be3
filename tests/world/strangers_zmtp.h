#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::test {

/// A bare connection to a broker, at the level of bytes, so that what libzmq would never send can
/// be sent: half a greeting, a length that lies, a message that stops in its middle. It never
/// blocks for longer than `patience`, and never throws: a broker may hang up any time.
class RawConnection {
 public:
  /// `address`: "/path" or "@name" of a unix socket, or a port number on 127.0.0.1. `from`: the
  /// last number of the address of 127.0.0.0/24 that it comes from.
  explicit RawConnection(const std::string& address, std::uint32_t from = 1);
  RawConnection(RawConnection&&) = default;
  RawConnection& operator=(RawConnection&&) = default;

  bool is_open() const { return static_cast<bool>(fd_); }
  /// As much as the other side takes at once; what it does not take is lost. False when it has hung
  /// up.
  bool write(std::string_view bytes);
  /// Writes what the other side takes at once, and says how much that was.
  std::size_t write_some(std::string_view bytes);
  /// What has come.
  std::string read_some();
  /// All that comes until the other side hangs up; what has come when that does not happen until
  /// then.
  std::string read_to_end(std::chrono::steady_clock::time_point deadline);
  /// Whether the other side has hung up; what it sent is read and forgotten.
  bool is_ended();
  /// The greeting of ZMTP 3.0 with security NULL and the command READY of that socket type:
  /// afterwards it may send messages. False when the broker does not play along.
  bool shake_hands(std::string_view socket_type = "DEALER");
  /// The same without waiting for the broker's part of it, for a broker on this thread.
  bool begin_handshake(std::string_view socket_type = "DEALER");
  /// One message of these parts.
  bool send(const std::vector<std::string>& parts);
  void stop_reading();
  /// The next close() is a reset.
  void close_with_reset();
  void close() { fd_ = UniqueFd(); }

 private:
  /// Waits for that many bytes; empty when they do not come.
  std::string read(std::size_t size);

  UniqueFd fd_;
};

/// The 64 bytes that begin a connection.
std::string zmtp_greeting();
/// A part of a message, or with `is_command` a command, with its header.
std::string zmtp_frame(std::string_view body, bool has_more, bool is_command = false);
/// The command READY of that socket type.
std::string zmtp_ready(std::string_view socket_type);
/// The header of a frame of that size, without the frame.
std::string zmtp_long_header(std::uint64_t size, std::uint8_t flags);

}  // namespace meshbus::test

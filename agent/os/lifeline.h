#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::os {

/// What an agent says, as `failed keeper lost`, before it ends because its keeper has.
inline constexpr std::string_view kKeeperLost = "keeper lost";

/// One end of a lifeline: a SEQPACKET socket with small text messages between the warden and a
/// role. The end of it means that the other side is dead.
class Lifeline {
 public:
  Lifeline() = default;
  explicit Lifeline(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const noexcept { return socket_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }
  /// Never blocks. A dead or stuck other side is not an error here: its end is noticed by reading.
  void send(std::string_view text) const;
  /// The same with a descriptor that travels along; it stays open here. False: it did not leave
  /// (the other side is dead or stuck).
  bool send(std::string_view text, int fd) const;

  /// The other side is gone; nothing more will come.
  struct Received {
    bool ended = false;
    std::optional<std::string> text;  ///< A message, if one was there.
    UniqueFd fd;                      ///< What came along with it; close-on-exec.
  };
  /// Never blocks. Neither ended nor text: nothing is there now.
  Received receive() const;
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
};

/// "word rest" cut at the first blank.
struct LifelineMessage {
  std::string_view word;
  std::string_view rest;
};
LifelineMessage parse_lifeline(std::string_view text) noexcept;

}  // namespace meshbus::os

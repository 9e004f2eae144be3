#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace meshbus {

/// The heartbeats of an open ZMTP 3.1 connection (RFC 37): PING asks for a sign of life, PONG gives
/// it. At most one of each waits to be sent. Pure.
class ZmtpHeartbeats {
 public:
  /// Asks the other end. `time_to_live`: when not zero, the other end is to take this one for lost
  /// after so long without a sign of it.
  void ask(std::chrono::milliseconds time_to_live);
  /// Takes a command of the other end; those that are no PING are ignored.
  void on_command(std::string_view command);
  /// The next command to send.
  std::optional<std::string> take();
  bool is_answer_due() const noexcept { return pong_.has_value(); }
  /// What the other end asked for with its last PING; zero: nothing.
  std::chrono::milliseconds time_to_live() const noexcept { return time_to_live_; }

 private:
  std::optional<std::string> ping_, pong_;
  std::chrono::milliseconds time_to_live_{0};
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "common/loop/reactor.h"
#include "common/zmtp/broker_socket.h"
#include "meshbus/result.h"

namespace meshbus {

/// What a session has learnt from its attempts to connect: when the next one is due, why the last
/// one failed, and whether the broker refuses this peer for good. Pure: the time is an argument.
class ConnectAttempts {
 public:
  using Time = Reactor::Time;

  ConnectAttempts(std::string endpoint, bool has_keys, bool is_link);

  /// How long to wait before the next attempt: longer after each one, with jitter.
  std::chrono::milliseconds next_delay();
  /// The key that a broker of these keys should have. It has two while it changes them, and a
  /// silent end of a handshake says that this was the wrong one.
  std::size_t next_server(std::size_t servers) const noexcept { return silent_ % servers; }
  /// Where our own key is, for people.
  void set_key_path(std::string path) { key_path_ = std::move(path); }
  /// A handshake failed. The error, when no further attempt makes sense.
  std::optional<Error> on_handshake_failed(BrokerSocket::Failure failure, bool is_connecting,
                                           Time now);
  /// Why the last attempt failed, as far as that is known; otherwise `reason`.
  std::string take_trouble(const std::string& reason);
  void on_up() noexcept;
  /// A broker that has accepted this peer once is not given up.
  bool was_ever_up() const noexcept { return was_ever_up_; }

 private:
  std::string endpoint_;
  bool has_keys_;
  bool is_link_;
  bool was_ever_up_ = false;
  std::chrono::milliseconds backoff_{0};
  /// Handshakes with keys that ended in silence, in a row, and since when.
  std::size_t silent_ = 0;
  Time silent_since_{};
  std::string trouble_;
  std::string key_path_;
};

}  // namespace meshbus

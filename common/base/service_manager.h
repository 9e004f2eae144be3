#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace meshbus {

/// Tells the service manager (systemd) what this process does: sd_notify(3), over the socket that
/// NOTIFY_SOCKET names. Without one every call does nothing. One thread.
class ServiceManager {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ServiceManager() = default;
  /// `socket`: a path, or "@name" in the abstract namespace. `watchdog`: silence after which the
  /// manager ends this process; 0: it does not watch.
  ServiceManager(std::string socket, std::chrono::microseconds watchdog)
      : socket_(std::move(socket)), watchdog_(watchdog) {}
  /// Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no child
  /// speaks for this process. Call it before there are threads.
  static ServiceManager from_environment();

  /// `status` stands in `systemctl status`.
  void ready(std::string_view status);
  void stopping();
  /// When the next sign of life is due; nothing when nobody watches.
  std::optional<Time> due() const;
  /// Sends a sign of life when one is due.
  void keep_alive(Time now);

  /// A sign of life is sent three times within the manager's limit.
  std::chrono::milliseconds period() const;

 private:
  void send(std::string_view state) const;

  std::string socket_;
  std::chrono::microseconds watchdog_{0};
  Time last_{};
};

}  // namespace meshbus

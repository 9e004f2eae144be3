#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/src/gateway/gateway_status.h"
#include "common/bus/bus.h"
#include "common/security/launcher_name.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

/// The broker through which a launcher reaches all its hosts, and the Bus to it. Knows whether that
/// broker is there, and moves to that of another host when it is told to. Lives on the reactor's
/// thread; its status() is for any thread.
class Gateway {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Events {
    /// Called once for each Bus: every move makes a new one.
    std::function<Dispatcher()> make_handlers;
    /// The broker has registered this launcher again, perhaps under another ProcId.
    std::function<void()> on_up_again;
    /// The broker refuses this launcher: nothing more will be heard.
    std::function<void(const std::string& reason)> on_refused;
    /// Another host answers at that address: the owner is to close this gateway.
    std::function<void()> on_other_host;
    std::function<void(const wire::Envelope&, const wire::CallHeader&, Bytes body)> on_data;
    /// A message of this launcher has come back.
    std::function<void(const wire::Envelope&, const Error&)> on_undeliverable;
    /// The broker has said that it ends. It may be there again by now.
    std::function<void()> on_broker_left = [] {};
    /// Routes that lead through its Bus lead nowhere now.
    std::function<void()> on_left = [] {};
  };
  struct Options {
    /// The largest body that is taken, in bytes.
    std::uint64_t body_limit = 0;
    /// Writes how to come to that host into the options of a session.
    std::function<void(const HostAddr&, Session::Options&)> reach = {};
  };

  Gateway(Reactor& reactor, HostAddr host, Options options, Events events);
  ~Gateway() = default;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  /// Connects. Once; a Gateway that was never opened is closed.
  void open();
  const GatewayStatus& status() const noexcept { return status_; }
  const HostAddr& host() const noexcept { return host_; }
  bool is_open() const noexcept { return bus_ != nullptr && !is_retired_; }
  bool is_up() const noexcept { return bus_ != nullptr && bus_->is_up(); }
  /// Null when it is closed.
  Bus* bus() const noexcept { return bus_.get(); }
  /// What a request gets when bus() is null.
  Error closed_error() const;

  /// The reason why its hosts are lost to this launcher: the broker has been away for `limit`.
  /// Once.
  std::optional<std::string> give_up(Time now, std::chrono::milliseconds limit);
  bool is_away() const noexcept { return down_since_.has_value(); }
  /// Whether the broker is away for long enough to try that of another host.
  bool should_move(Time now) const;
  /// This process was stopped: the broker gets a fresh grace.
  void extend(Time now);
  /// Goes on through the broker of that host. What is under way fails as fate_unknown.
  void move_to(const HostAddr& host);
  /// Its hosts were shut down: new users get another connection, and it does not move any more.
  void retire();
  bool is_retired() const noexcept { return is_retired_; }
  /// Leaves the bus.
  void close(const std::string& reason);

 private:
  void connect();
  void on_up(const wire::Welcome& welcome);
  void on_refused(const Error& error);

  Reactor& reactor_;
  HostAddr host_;
  const Options options_;
  Events events_;
  GatewayStatus status_;
  std::unique_ptr<Bus> bus_;
  LauncherName name_;
  std::uint64_t incarnation_;
  Time since_{};
  std::optional<Time> down_since_;
  bool has_given_up_ = false;
  bool is_retired_ = false;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus

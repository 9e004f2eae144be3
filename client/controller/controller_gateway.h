#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/security/launcher_name.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

/// The broker through which a controller reaches its hosts, and the Bus to it. When that broker is
/// away for too long, it goes on through that of the next host. Lives on the reactor's thread.
class ControllerGateway {
 public:
  struct Options {
    std::vector<HostAddr> hosts;
    /// See Controller::Options.
    bool is_controller = true;
    /// A name that is in use everywhere is no reason to give up: it may become free.
    bool waits_for_name = false;
    std::chrono::milliseconds limit{3000};
    std::function<void(const HostAddr&, Session::Options&)> reach;
  };
  struct Events {
    /// Called once for each Bus.
    std::function<Dispatcher()> make_handlers;
    std::function<void()> on_up;
    std::function<void()> on_down;
    /// No broker takes this controller; final.
    std::function<void(const Error&)> on_refused;
    std::function<void(const wire::Envelope&, const Error&)> on_undeliverable;
  };

  ControllerGateway(Reactor& reactor, Options options, Events events);
  ControllerGateway(const ControllerGateway&) = delete;
  ControllerGateway& operator=(const ControllerGateway&) = delete;

  /// Connects to the first host.
  void open();
  void close(const std::string& reason);
  /// Null between two brokers.
  Bus* bus() const noexcept { return bus_.get(); }
  /// The address of the controller, now or as soon as the broker takes it.
  ProcId self() const;
  /// The same, once the broker has taken it.
  std::optional<ProcId> confirmed_self() const;
  const HostAddr& host() const { return options_.hosts[at_]; }
  /// Whether the broker is away for too long, or refuses this controller.
  bool should_move(Reactor::Time now) const;
  /// Whether it has answered, if only with a refusal.
  bool is_refused() const noexcept { return is_refused_; }
  /// Goes on through the broker of the next host, if there is another one.
  void move();

 private:
  void on_refused(const Error& error);

  Reactor& reactor_;
  Options options_;
  Events events_;
  std::size_t at_ = 0;
  std::unique_ptr<Bus> bus_;
  LauncherName launcher_;
  Name name_;
  std::uint64_t incarnation_;
  std::optional<Reactor::Time> down_since_;
  /// In a row, one for each broker.
  std::size_t refusals_ = 0;
  bool is_refused_ = false;
};

}  // namespace meshbus

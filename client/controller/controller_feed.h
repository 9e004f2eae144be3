#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/controller/watch_feed.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/security/launcher_name.h"
#include "meshbus/controller.h"

namespace meshbus {

/// Listens to the controller of one of some hosts: subscribes, asks it every second whether it is
/// there and still knows us, and looks for it, or another one, when it is not. A connection of its
/// own, because a controller tells each listener on the bus everything once. Lives on the reactor's
/// thread.
class ControllerFeed {
 public:
  struct Options {
    std::vector<HostAddr> hosts;
    /// As in wire::Subscribe.
    std::string mesh;
    RankSet ranks;
    std::chrono::milliseconds probe{1000};
    std::chrono::milliseconds watchdog{120'000};
    std::function<void(const HostAddr&, Session::Options&)> reach;
  };
  struct Events {
    /// What there is to tell, in order.
    std::function<void(SupervisionEvent)> on_event;
    /// A controller has said yes.
    std::function<void(const ProcId&)> on_subscribed;
    /// No luck: at `host`, which is not the last word.
    std::function<void(const HostAddr& host, const Error&)> on_trouble;
  };
  ControllerFeed(Reactor& reactor, Options options, Events events);
  ~ControllerFeed();
  ControllerFeed(const ControllerFeed&) = delete;
  ControllerFeed& operator=(const ControllerFeed&) = delete;

 private:
  void open();
  void move_on();
  void ask();
  void on_answer(const Result<ControlMessage>& answer);
  void on_problem(const Error& error);
  void on_heard(const Request& request);
  void on_tick();
  void hear();
  void tell(SupervisionEvent::Kind kind, const HostAddr& host, std::string problem);
  bool is_from_controller(const Request& request) const;

  Reactor& reactor_;
  Options options_;
  Events events_;
  LauncherName name_;
  std::uint64_t incarnation_;
  std::size_t at_ = 0;
  std::unique_ptr<Bus> bus_;
  WatchFeed feed_;
  Reactor::TimerId timer_ = 0;
  Reactor::Time due_{};
  /// Since when our connection is away.
  std::optional<Reactor::Time> down_since_;
  bool is_asked_ = false;
  /// It has to be subscribed as if for the first time: the controller may have forgotten us, or be
  /// another one.
  bool begins_ = true;
  bool should_move_ = false;
  /// The incarnation of the controller that is heard.
  std::uint64_t life_ = 0;
  /// When the controller was heard last.
  std::optional<Reactor::Time> heard_;
  bool is_silent_ = false;
  bool is_lost_ = false;
  std::string problem_;
  /// Where the controller was heard last.
  HostAddr heard_at_ = HostAddr::local(0);
  /// Lets a callback see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus

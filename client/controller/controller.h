#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/controller/controller_counts.h"
#include "client/controller/controller_gateway.h"
#include "client/controller/handover_service.h"
#include "client/controller/pair_seat.h"
#include "client/controller/subscriber_service.h"
#include "client/controller/supervisor.h"
#include "common/bus/bus.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Watches the procs of a set of hosts, and says what changes: to its owner, and to
/// subscribers on the bus (spec 8.1-8.4). What it says and asks is decided by a Supervisor; this
/// carries it over the bus. Lives on the reactor's thread.
class Controller {
 public:
  struct Options {
    /// With what the settings say of times and keys.
    static Options from(const Config& config, std::vector<HostAddr> hosts);

    std::vector<HostAddr> hosts;
    std::string mesh;  ///< Only that one; empty = all.
    /// In each of them also the actors of that name; empty = those that have subscribers.
    std::string actors = {};
    /// As the controller of its broker, of which there is one, and which needs the key of an
    /// operator. Else as one launcher among others, which may look: nobody can know its address to
    /// subscribe.
    bool is_controller = true;
    std::chrono::milliseconds poll{10'000};
    std::chrono::milliseconds probe{1000};
    /// The name of its pair: one controller of that name acts, and the others stand by. All have
    /// the same hosts. Empty: it is the only one.
    std::string pair = {};
    /// The acting one of a pair that is silent for so long is replaced.
    std::chrono::milliseconds term{10'000};
    /// What a host is asked has failed when it does not answer for so long.
    std::chrono::milliseconds answer_limit{3000};
    /// A broker that does not answer for so long is given up for that of the next host.
    std::chrono::milliseconds home_limit{3000};
    /// The lease of meshes that are handed to this controller; 0 = it takes none.
    std::chrono::milliseconds lease{0};
    /// What its meshes get to end by themselves when it ends in order, and what that may take
    /// beyond.
    std::chrono::milliseconds grace{10'000};
    std::chrono::milliseconds stop_limit{30'000};
    /// Writes into the options of a session how to come to the broker of a host.
    std::function<void(const HostAddr&, Session::Options&)> reach;
  };
  struct Events {
    /// A broker has taken this controller (again), as that.
    std::function<void(const ProcId&)> on_up = {};
    /// What there is to say, in order.
    std::function<void(const std::vector<WatchEvent>&)> on_events;
    /// No broker will have this controller; final.
    std::function<void(const Error&)> on_refused;
    /// An operator wants it to end in order, for that reason. Not set: that is refused.
    std::function<void(const std::string& reason)> on_stop_asked = {};
    /// As one of a pair it acts from now on, or stands by.
    std::function<void(const PairNotice&)> on_pair = {};
  };

  Controller(Reactor& reactor, Options options, Events events);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Ends in order. The acting one of a pair gives its term, and with it its meshes, to another one
  /// that stands by. Otherwise it stops the meshes that it answers for, at the latest after grace
  /// and stop_limit; then ends its hosts, for at most four times grace and answer_limit. Then calls
  /// `done`. What is left ends with its lease. Once.
  void end(const std::string& reason, std::function<void()> done);
  /// Leaves the bus. The leases of its meshes lapse, unless this controller is started again and
  /// renews them before.
  void close(const std::string& reason);
  /// Meshes that it answers for, and that have not ended.
  std::size_t live_owned() const { return supervisor_.live_owned(); }
  /// For metrics. Looks at every mesh.
  ControllerCounts counts() const;

 private:
  ControllerGateway::Events gateway_events();
  Dispatcher make_handlers();
  void on_turn();
  void arm();
  /// Tells that our broker is away for too long, and tries that of another host.
  void check_gateway(Reactor::Time now);
  void act(Supervisor::Actions actions);
  void ask(const Supervisor::Question& question);
  /// Asks a proc.
  void ask_actors(const Supervisor::Question& question, Bus::Answer on_answer);
  void say(const std::vector<WatchEvent>& events);
  void on_pair(const PairNotice& notice);
  /// At the end of the acting one of a pair: waits until another one acts.
  void await_successor(const std::string& reason, std::function<void()> done, Reactor::Time until);
  /// Meshes that know us as their owner are ours, if we act.
  void take_name();

  void on_state_changed(const Request& request, const wire::StateChanged& changed);
  void on_actor_event(const Request& request, const wire::ActorEvent& event);
  void on_stop_and_exit(const Request& request, const wire::StopAndExit& message);
  void on_stop_procs(const Request& request, const wire::StopProcs& message);

  Reactor& reactor_;
  Options options_;
  Events events_;
  Supervisor supervisor_;
  ControllerGateway gateway_;
  PairSeat seat_;
  SubscriberService subscribers_;
  HandoverService handovers_;
  /// Key of a host's agent -> the host.
  std::map<std::uint64_t, HostAddr> agents_;
  Reactor::TimerId timer_ = 0;
  Reactor::TimerId end_timer_ = 0;
  bool is_closed_ = false;
  std::uint64_t told_ = 0;  ///< Events.
};

}  // namespace meshbus

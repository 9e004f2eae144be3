#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "client/controller/subscriptions.h"
#include "client/controller/supervisor.h"
#include "common/bus/bus.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Watches the procs of a set of hosts, and says what changes: to whoever made it, and to subscribers on the bus (spec 8.1-8.4). What it
/// says and asks is decided by a Supervisor; this carries it over the bus. Lives on the reactor's thread.
class Controller {
 public:
  struct Options {
    /// With what the settings say of times and keys.
    static Options from(const Config& config, std::vector<HostAddr> hosts);

    std::vector<HostAddr> hosts;
    std::string mesh;  ///< Only that one; empty = all.
    /// In each of them also the actors of that name; empty = those that somebody subscribes to.
    std::string actors = {};
    /// As the controller of its broker, of which there is one, and which needs the key of an operator. Else as one launcher among others,
    /// who may look: nobody can know its address to subscribe.
    bool is_controller = true;
    std::chrono::milliseconds poll{10'000};
    std::chrono::milliseconds probe{1000};
    /// What a host is asked has failed when it does not answer for so long.
    std::chrono::milliseconds answer_limit{3000};
    /// A broker that does not answer for so long is given up for that of the next host.
    std::chrono::milliseconds home_limit{3000};
    /// Of meshes that are handed to this controller; 0 = it takes none.
    std::chrono::milliseconds lease{0};
    /// What its meshes get to end by themselves when it ends in order, and what that may take beyond.
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
  };

  Controller(Reactor& reactor, zmq::context_t& context, Options options, Events events);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Ends in order: stops the meshes that this controller answers for, then calls `done`; at the latest after grace and stop_limit. What is
  /// left then ends with its lease. Once.
  void end(const std::string& reason, std::function<void()> done);
  /// Leaves the bus. The leases of its meshes lapse, unless another life of this controller renews them before.
  void close(const std::string& reason);
  /// Meshes that it answers for, and that have not ended.
  std::size_t live_owned() const { return supervisor_.live_owned(); }

 private:
  Dispatcher make_handlers();
  void open();
  void on_refused(const Error& error);
  void on_undeliverable(const wire::Envelope& envelope, const Error& error);
  void on_turn();
  void arm();
  /// Our broker is away for too long: that is said, and another host's is tried.
  void check_home(Reactor::Time now);
  void act(Supervisor::Actions actions);
  void ask(const Supervisor::Question& question);
  /// Of a proc.
  void ask_actors(const Supervisor::Question& question, Bus::Answer on_answer);
  void say(const std::vector<WatchEvent>& events);
  void send(const ProcId& subscriber, const std::vector<WatchEvent>& events, bool is_snapshot);
  void send_heartbeats();
  void send_known(const ProcId& subscriber, const std::string& mesh, const RankSet& ranks);

  void on_state_changed(const Request& request, const wire::StateChanged& changed);
  void on_actor_event(const Request& request, const wire::ActorEvent& event);
  void on_subscribe(const Request& request, const wire::Subscribe& message);
  void on_unsubscribe(const Request& request, const wire::Unsubscribe& message);
  void on_get_subscriber_count(const Request& request, const wire::GetSubscriberCount& message);
  void on_get_state(const Request& request, const wire::GetState& message);
  void on_list_meshes(const Request& request, const wire::ListMeshes& message);
  void on_stop_procs(const Request& request, const wire::StopProcs& message);
  void on_offer_mesh(const Request& request, const wire::OfferMesh& message);
  void on_hand_over(const Request& request, const wire::HandOver& message);
  /// Whether all that was to be stopped has ended.
  void check_end();
  /// Who was told that we would take a mesh may be giving it to us just now.
  void note_offers();
  wire::ControllerStateT make_state() const;
  /// Where we are, or shall be.
  ProcId self() const;
  /// The ProcId that a request is about, if it is its sender's own; otherwise it is refused.
  std::optional<ProcId> check_subscriber(const Request& request, const flatbuffers::String* text);

  Reactor& reactor_;
  zmq::context_t& context_;
  Options options_;
  Events events_;
  Supervisor supervisor_;
  Subscriptions subscriptions_;
  std::size_t home_ = 0;
  std::unique_ptr<Bus> bus_;
  Name name_;
  std::uint64_t incarnation_;
  /// Key of a host's agent -> the host.
  std::map<std::uint64_t, HostAddr> agents_;
  Reactor::TimerId timer_ = 0;
  std::optional<Reactor::Time> down_since_;
  std::size_t refusals_ = 0;
  bool is_closed_ = false;
  /// Of end(): it is under way.
  std::function<void()> when_ended_;
  wire::StopProcsT last_order_;
  std::optional<Reactor::Time> all_ended_;
  Reactor::TimerId end_timer_ = 0;
  /// Meshes that we have said we would take, and when; until we answer for them.
  std::map<std::string, Reactor::Time> offered_;
};

}  // namespace meshbus

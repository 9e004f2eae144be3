#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/controller/controller_gateway.h"
#include "client/controller/event_history.h"
#include "client/controller/pair_seat.h"
#include "client/controller/subscriptions.h"
#include "client/controller/supervisor.h"
#include "common/bus/bus.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// What a controller tells its subscribers, and answers to those that ask. Lives on the reactor's
/// thread.
class SubscriberService {
 public:
  /// `poll`: the interval between two heartbeats.
  SubscriberService(Reactor& reactor, ControllerGateway& gateway, Supervisor& supervisor,
                    const PairSeat& seat, std::chrono::milliseconds poll)
      : reactor_(reactor), gateway_(gateway), supervisor_(supervisor), seat_(seat), poll_(poll) {}

  void tell(const std::vector<WatchEvent>& events);
  /// Another controller acts, and has the subscribers.
  void drop_all() { subscriptions_ = {}; }
  void send_heartbeats();
  /// Whether that mesh, or mesh of actors, has a subscriber.
  bool is_wanted(const std::string& mesh) const { return subscriptions_.count(mesh) != 0; }
  /// All subscriptions.
  std::uint64_t count() const { return subscriptions_.count({}); }
  /// A message to that proc has come back.
  void on_undeliverable(const wire::Envelope& envelope, const Error& error);

  /// Answers, and returns what is to be done then.
  Supervisor::Actions on_subscribe(const Request& request, const wire::Subscribe& message);
  void on_unsubscribe(const Request& request, const wire::Unsubscribe& message);
  void on_get_subscriber_count(const Request& request, const wire::GetSubscriberCount& message);
  void on_get_state(const Request& request, const wire::GetState& message);
  void on_list_meshes(const Request& request, const wire::ListMeshes& message);

 private:
  /// What kind of telling it is: news, the present state, or what was said before.
  enum class Telling { news, snapshot, replay };
  void send(const ProcId& subscriber, const std::vector<WatchEvent>& events, Telling telling);
  void send_known(const ProcId& subscriber, const std::string& mesh, const RankSet& ranks);
  wire::ControllerStateT make_state() const;
  /// The ProcId that a request is about, if it is its sender's own; otherwise it is refused.
  std::optional<ProcId> check_subscriber(const Request& request, const flatbuffers::String* text);

  Reactor& reactor_;
  ControllerGateway& gateway_;
  Supervisor& supervisor_;
  const PairSeat& seat_;
  std::chrono::milliseconds poll_;
  Subscriptions subscriptions_;
  EventHistory history_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/controller/controller_gateway.h"
#include "client/controller/host_end.h"
#include "client/controller/pair_seat.h"
#include "client/controller/supervisor.h"
#include "common/bus/bus.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Takes meshes for a controller, gives them to other owners, and ends them when the controller
/// ends in order (docs/decisions/0051-restarts-go-with-the-mesh.md). Lives on the reactor's thread.
class HandoverService {
 public:
  struct Options {
    std::vector<HostAddr> hosts;
    /// The only mesh that is watched; empty = all.
    std::string mesh;
    /// The lease of meshes that are taken; 0 = none is taken.
    std::chrono::milliseconds lease{0};
    std::chrono::milliseconds grace{0};
    /// What an end in order may take beyond the grace.
    std::chrono::milliseconds stop_limit{0};
    std::chrono::milliseconds answer_limit{0};
  };
  HandoverService(Reactor& reactor, ControllerGateway& gateway, Supervisor& supervisor,
                  const PairSeat& seat, Options options)
      : reactor_(reactor),
        gateway_(gateway),
        supervisor_(supervisor),
        seat_(seat),
        options_(std::move(options)) {}

  void on_offer_mesh(const Request& request, const wire::OfferMesh& message);
  /// `on_done`: called when the mesh is no longer ours, or stays ours, with what follows.
  void on_hand_over(const Request& request, const wire::HandOver& message,
                    std::function<void(Supervisor::Actions)> on_done);
  /// Refuses it: a controller does not know how the ranks of a mesh are started.
  void on_order_resize(const Request& request, const wire::OrderResize& message);
  /// Begins to end in order: see Controller::end(). Once; false: it has begun already.
  bool begin_end(const std::string& reason, std::function<void()> done);
  /// Orders the stop of our meshes.
  Supervisor::Actions stop_all();
  /// To be called after each change: what is to be stopped because it was taken during the end; and
  /// whether the end is complete.
  Supervisor::Actions note_offers();
  void check_end();
  void close();

 private:
  /// HandOver of hosts themselves.
  void give_hosts(const Request& request, const wire::HandOver& message);
  /// The end may take so much longer; what is left then is told.
  void limit_end(std::chrono::milliseconds limit);
  /// Ends the hosts that end with us. Whether that is done.
  bool have_hosts_ended();
  bool is_ending() const noexcept { return end_timer_ != 0; }

  Reactor& reactor_;
  ControllerGateway& gateway_;
  Supervisor& supervisor_;
  const PairSeat& seat_;
  Options options_;
  /// Meshes that we have said we would take, and when; until we answer for them.
  std::map<std::string, Reactor::Time> offered_;
  /// Hosts that we have said we would take, and when.
  std::map<HostAddr, Reactor::Time> offered_hosts_;
  std::function<void()> when_ended_;
  std::optional<Reactor::Time> all_ended_;
  wire::StopProcsT last_order_;
  std::shared_ptr<HostEnd> host_end_;
  Reactor::TimerId end_timer_ = 0;
  bool is_closed_ = false;
};

}  // namespace meshbus

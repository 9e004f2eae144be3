#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agent/host/hands/execs.h"
#include "agent/host/output/log_streams.h"
#include "agent/host/ownership/actor_leases.h"
#include "agent/host/ownership/host_owner.h"
#include "agent/host/ownership/peer_watch.h"
#include "agent/host/procs/mesh_procs.h"
#include "agent/host/replies/collections.h"
#include "agent/host/services/request_checks.h"
#include "agent/host/updates/publisher.h"
#include "agent/host/updates/rank_waits.h"

namespace meshbus::host {

/// Answers owners: leases and handover; and watches every peer that something here depends on:
/// owners, subscribers, readers of logs, askers, requesters of execs. Lives on the
/// reactor's thread.
class OwnershipService {
 public:
  /// What it works with; all of it outlives it.
  struct Parts {
    Bus& bus;
    MeshProcs& procs;
    RequestChecks& checks;
    Publisher& publisher;
    LogStreams& logs;
    RankWaits& waits;
    Collections& collections;
    Execs& execs;
    HostOwner& host;
  };
  /// `actor_grace`: what actors get to end in when their lease has lapsed.
  OwnershipService(const Parts& parts, std::chrono::milliseconds actor_grace);

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<OwnershipService>& service);

  /// Something here depends on that peer.
  void watch(const ProcId& peer) { peers_.add(peer); }
  /// Something here depends on that peer no longer.
  void release(const ProcId& peer);
  /// Watches the owners and subscribers of the meshes that are here.
  void watch_all();
  /// The sender says that it is the owner of that mesh, at another address. False: it is not, or
  /// may not own meshes.
  bool move_owner(const Request& request, Mesh& mesh, const ProcId& owner);
  /// Another owner answers for that mesh from now on, and is told everything. Errors: refused.
  Result<void> hand_over(Mesh& mesh, const ProcId& owner, std::chrono::milliseconds lease,
                         wire::OwnerLoss loss);
  /// There is a new session with the broker.
  void on_up() { peers_.on_up(); }
  /// A message came back: the peer may be gone.
  void on_undeliverable(const wire::Envelope& envelope, const Error& error);

 private:
  void on_renew_lease(const Request& request, const wire::RenewLease& message);
  void on_hand_over(const Request& request, const wire::HandOver& message);
  /// HandOver of this host itself.
  void hand_over_host(const Request& request, const wire::HandOver& message, const ProcId& owner);
  void on_gone(const Request& request, const wire::Gone& message);
  /// Errors: not_exist (no such mesh), queue_full.
  Result<void> renew(const std::string& name, std::chrono::milliseconds length,
                     const wire::Envelope& sender);
  /// Whether the sender may hand that mesh over. Errors: unauthorised.
  Result<void> check_may_hand_over(const wire::Envelope& envelope, const Mesh& mesh,
                                   const ProcId& owner) const;
  void on_peer_gone(const std::string& peer);
  bool is_needed(const ProcId& peer) const;
  /// Stops the actors of that name in all procs of that mesh here.
  void on_actor_lease_lapsed(const std::string& mesh, const std::string& actor,
                             std::chrono::milliseconds length);

  Parts parts_;
  std::chrono::milliseconds actor_grace_;
  PeerWatch peers_;
  ActorLeases actor_leases_;
  /// Lets an answer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus::host

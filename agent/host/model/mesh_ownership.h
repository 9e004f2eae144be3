#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/model/lease.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// The owner of a mesh, its lease, and what the owner has left for the one that follows it (spec
/// 5.4, docs/decisions/0051-restarts-go-with-the-mesh.md). Pure: the time is an argument.
///
/// Large because: each fact that the ledger keeps is told and restored by functions of its own.
class MeshOwnership {
 public:
  using Time = Lease::Time;

  /// `may_restart`: the first owner may restart ranks that have ended. The ones that follow may
  /// with a plan.
  MeshOwnership(ProcId owner, std::chrono::milliseconds lease, bool may_restart, Time now);

  const ProcId& owner() const noexcept { return owner_; }
  std::uint64_t key() const noexcept { return key_; }
  /// No owner answers for the mesh any more.
  bool is_gone() const noexcept { return is_gone_; }
  /// The owner is gone, and the mesh lives on without one: any operator may hand it to a new owner.
  bool is_detached() const noexcept { return is_gone_ && loss_ == wire::OwnerLoss::detach; }
  bool has_owner(const ProcId& peer) const { return !is_gone_ && owner_ == peer; }
  /// Whether ranks that have ended may still be restarted.
  bool may_restart() const noexcept {
    const bool has_plan = restarts_ && !restarts_->over;
    return !is_gone_ && !is_stopped_ && (handed_by_.empty() ? may_restart_ : has_plan);
  }
  /// The restart policy that the owner has left here, and what was used of it.
  const std::optional<wire::RestartPlanT>& restarts() const noexcept { return restarts_; }
  /// Replaces it. Once the mesh was stopped, every plan is over.
  void keep_restarts(wire::RestartPlanT plan);
  /// The whole mesh is stopped: a plan is over from now on. Returns whether may_restart() ends so.
  bool end_restarts() noexcept;
  /// Somebody stops that rank: it is not restarted. Returns whether it could have been.
  bool stop_rank(std::uint64_t rank);
  /// A rank of that number begins anew, because the mesh grows.
  void forget_stop(std::uint64_t rank) { stopped_.erase(rank); }
  /// The owner wants no rank of it to begin any more.
  bool is_ended() const noexcept { return is_stopped_; }
  /// Whether no other incarnation of that rank may begin.
  bool is_stopped(std::uint64_t rank) const { return is_stopped_ || stopped_.contains(rank); }
  /// Those ranks, for messages.
  std::vector<wire::RankInterval> stopped() const;
  void restore_stopped(const std::vector<wire::RankInterval>& ranks);
  wire::OwnerLoss loss() const noexcept { return loss_; }
  const Lease& lease() const noexcept { return lease_; }
  /// The owner before this one; empty: the owner is the one of the request.
  const std::string& handed_by() const noexcept { return handed_by_; }
  /// The mesh was handed over, and the new owner has not renewed the lease yet: the handover may
  /// not be done on all hosts, so the owner before still restarts ranks.
  bool is_unconfirmed() const noexcept { return is_unconfirmed_; }
  /// The owner has renewed the lease or restarted a rank.
  void confirm() noexcept { is_unconfirmed_ = false; }
  /// The incarnation of the owner; 0 = not known.
  std::uint64_t incarnation() const noexcept { return incarnation_; }
  /// The first owner has another address than at first, or there is another owner.
  bool has_changed() const noexcept { return has_moved_ || !handed_by_.empty(); }

  /// Length 0: as long as before. Returns whether the length has changed.
  bool renew(Time now, std::chrono::milliseconds length);

  /// What the end of the owner's connection, or of its lease, means for the mesh.
  enum class Fate {
    lives,     ///< Nothing: the lease holds.
    detached,  ///< It lives on without an owner.
    stops,     ///< It is stopped.
  };
  /// Looks at the lease, at the time that its due() asked for.
  Fate check_lease(Time now);
  /// The owner's connection has ended. `lives`: the lease decides, and the owner is away.
  Fate on_owner_gone();
  /// The owner was heard of. Returns whether it had been away.
  bool on_owner_back() noexcept;

  /// Another owner, or another lease. Returns whether the owner is another one. Errors: refused
  /// (the mesh is being stopped because its owner is gone); `mesh` is for its words.
  Result<bool> hand_over(const std::string& mesh, const ProcId& owner,
                         std::chrono::milliseconds lease, wire::OwnerLoss loss, Time now);

  /// The owner has spoken: its incarnation, by which it is known at another address. Returns
  /// whether that is another one.
  bool identify(std::uint64_t incarnation) noexcept {
    return std::exchange(incarnation_, incarnation) != incarnation;
  }
  /// The owner says that it has another address, because its launcher is connected to another
  /// broker. Returns whether it is the owner: the same name and incarnation.
  bool move_to(const ProcId& owner, std::uint64_t incarnation);

  /// Takes over what another agent has written down.
  void restore_gone() noexcept { is_gone_ = true; }
  void restore_handover(const ProcId& owner, std::string handed_by, wire::OwnerLoss loss);
  void restore_move(const ProcId& owner);

 private:
  ProcId owner_;
  std::uint64_t key_;
  Lease lease_;
  wire::OwnerLoss loss_ = wire::OwnerLoss::stop;
  std::string handed_by_;
  std::optional<wire::RestartPlanT> restarts_;
  bool may_restart_;
  bool is_unconfirmed_ = false;
  bool is_stopped_ = false;
  /// Ranks of this host that were stopped, as far as they could be restarted.
  std::set<std::uint64_t> stopped_;
  std::uint64_t incarnation_ = 0;
  bool has_moved_ = false;
  bool is_gone_ = false;
  /// The owner's connection has ended, and the owner was not heard of since: the lease counts.
  bool is_away_ = false;
};

}  // namespace meshbus::host

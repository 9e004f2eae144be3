#include "agent/host/model/mesh_ownership.h"

#include <cstdint>
#include <utility>

namespace meshbus::host {

MeshOwnership::MeshOwnership(ProcId owner, std::chrono::milliseconds lease, bool may_restart,
                             Time now)
    : owner_(std::move(owner)), key_(owner_.key()), lease_(now, lease), may_restart_(may_restart) {}

bool MeshOwnership::renew(Time now, std::chrono::milliseconds length) {
  const bool is_changed = length.count() > 0 && length != lease_.length();
  lease_.renew(now, length);
  return is_changed;
}

MeshOwnership::Fate MeshOwnership::check_lease(Time now) {
  if (!lease_.has_lapsed(now)) return Fate::lives;
  if (loss_ != wire::OwnerLoss::detach) return Fate::stops;
  is_gone_ = true;
  return Fate::detached;
}

MeshOwnership::Fate MeshOwnership::on_owner_gone() {
  if (loss_ != wire::OwnerLoss::stop && lease_.due()) {
    is_away_ = true;
    return Fate::lives;
  }
  is_gone_ = true;
  return Fate::stops;
}

bool MeshOwnership::on_owner_back() noexcept {
  return std::exchange(is_away_, false);
}

Result<bool> MeshOwnership::hand_over(const std::string& mesh, const ProcId& owner,
                                      std::chrono::milliseconds lease, wire::OwnerLoss loss,
                                      Time now) {
  if (is_gone_ && !is_detached())
    return fail(ErrorCode::refused, "mesh " + mesh +
                                        " is being stopped: its owner is gone; it is too late to "
                                        "hand it over");
  const bool is_other = is_detached() || owner != owner_;
  if (is_other) {
    is_unconfirmed_ = !is_gone_;
    handed_by_ = owner_.to_string();
    owner_ = owner;
    key_ = owner.key();
    incarnation_ = 0;
    is_gone_ = false;
    is_away_ = false;
  }
  loss_ = loss;
  lease_ = Lease(now, lease);
  return is_other;
}

void MeshOwnership::keep_restarts(wire::RestartPlanT plan) {
  plan.over = plan.over || is_stopped_;
  restarts_ = std::move(plan);
}

bool MeshOwnership::end_restarts() noexcept {
  const bool could_restart = may_restart();
  is_stopped_ = true;
  if (restarts_) restarts_->over = true;
  return could_restart && !may_restart();
}

bool MeshOwnership::stop_rank(std::uint64_t rank) {
  return may_restart() && stopped_.insert(rank).second;
}

std::vector<wire::RankInterval> MeshOwnership::stopped() const {
  // The whole mesh: this host does not know how many ranks others have.
  if (is_stopped_) return {{0, UINT64_MAX}};
  std::vector<wire::RankInterval> ranks;
  for (const auto rank : stopped_) {
    if (!ranks.empty() && ranks.back().end() == rank) {
      ranks.back().mutate_end(rank + 1);
    } else {
      ranks.emplace_back(rank, rank + 1);
    }
  }
  return ranks;
}

void MeshOwnership::restore_stopped(const std::vector<wire::RankInterval>& ranks) {
  for (const auto& block : ranks) {
    if (block.end() == UINT64_MAX) {
      (void)end_restarts();
      return;
    }
    for (auto rank = block.begin(); rank < block.end(); ++rank) stopped_.insert(rank);
  }
}

bool MeshOwnership::move_to(const ProcId& owner, std::uint64_t incarnation) {
  if (is_gone_ || incarnation_ == 0 || incarnation != incarnation_) return false;
  if (owner == owner_) return true;
  if (!(owner.name() == owner_.name())) return false;
  restore_move(owner);
  is_away_ = false;
  return true;
}

void MeshOwnership::restore_move(const ProcId& owner) {
  owner_ = owner;
  key_ = owner.key();
  has_moved_ = true;
}

void MeshOwnership::restore_handover(const ProcId& owner, std::string handed_by,
                                     wire::OwnerLoss loss) {
  owner_ = owner;
  key_ = owner.key();
  handed_by_ = std::move(handed_by);
  loss_ = loss;
}

}  // namespace meshbus::host

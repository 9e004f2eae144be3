#include "agent/host/ownership/mesh_owners.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using Fate = MeshOwnership::Fate;

constexpr std::chrono::milliseconds kOwnerGoneGrace{1000};

std::string lease_left(const Mesh& mesh, Reactor::Time now) {
  const auto left = mesh.ownership.lease().due().value_or(now) - now;
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return std::to_string(std::max<std::int64_t>(milliseconds, 0)) + " ms";
}

}  // namespace

MeshOwners::~MeshOwners() {
  for (const auto& [name, timer] : timers_) reactor_.cancel(timer);
}

void MeshOwners::arm(const Mesh& mesh) {
  Reactor::TimerId& timer = timers_[mesh.name];
  reactor_.cancel(std::exchange(timer, 0));
  if (mesh.ownership.is_gone()) return;
  if (const auto due = mesh.ownership.lease().due())
    timer = reactor_.at(*due, [this, name = mesh.name] { check_lease(name); });
}

void MeshOwners::renew_lease(Mesh& mesh, std::chrono::milliseconds length) {
  if (mesh.ownership.renew(reactor_.now(), length)) table_.touch(mesh);
  arm(mesh);
}

void MeshOwners::check_lease(const std::string& name) {
  Mesh* mesh = table_.find_mesh(name);
  if (mesh == nullptr) return;
  // The first owner is watched by its connection, and renews no lease where nothing lives.
  const bool may_restart = !mesh->ownership.handed_by().empty() && mesh->ownership.may_restart();
  if (mesh->live == 0 && !may_restart) return;
  const Fate fate = mesh->ownership.check_lease(reactor_.now());
  if (fate == Fate::lives) return arm(*mesh);
  on_lapsed(*mesh, fate);
}

void MeshOwners::on_lapsed(Mesh& mesh, Fate fate) {
  const auto length = std::to_string(mesh.ownership.lease().length().count());
  const std::string why = "its owner did not renew its lease of " + length + " ms";
  const std::string then =
      fate == Fate::detached ? "it lives on, and nobody answers for it" : "it is stopped";
  log::warn("mesh " + mesh.name + ": " + why + ": " + then);
  events_.add(wire::EventKind::lease_lapsed, mesh.name, mesh.ownership.owner().to_string(),
              why + ": " + then);
  if (fate == Fate::detached) {
    table_.touch(mesh);
    outputs_.stop_relaying(mesh);
    publish(mesh);
    return;
  }
  end_restarts(mesh);
  ending_.stop(mesh, make_order(mesh, "lease lapsed", wire::Cause::lease_lapsed));
}

void MeshOwners::keep_restarts(Mesh& mesh, wire::RestartPlanT plan) {
  const bool could_restart = mesh.ownership.may_restart();
  mesh.ownership.keep_restarts(std::move(plan));
  table_.touch(mesh);
  // Subscribers wait for further incarnations as long as some may come.
  if (mesh.ownership.may_restart() != could_restart) publish(mesh);
}

void MeshOwners::end_restarts(Mesh& mesh) {
  if (!mesh.ownership.end_restarts()) return;
  table_.touch(mesh);
  publish(mesh);
}

void MeshOwners::stop_ranks(Mesh& mesh, const std::vector<std::uint64_t>& ranks) {
  bool is_new = false;
  for (const auto rank : ranks) is_new = mesh.ownership.stop_rank(rank) || is_new;
  if (!is_new) return;
  table_.touch(mesh);
  publish(mesh);
}

void MeshOwners::publish(Mesh& mesh) {
  mesh.updates.set_owner_changed();
  table_.mark_changed(mesh);
}

StopOrder MeshOwners::make_order(const Mesh& mesh, const char* reason, wire::Cause cause) const {
  return {.reason = reason,
          .requester = "host agent of " + host_,
          .grace = mesh.spec.grace,
          .cause = cause};
}

void MeshOwners::on_owner_gone(Mesh& mesh) {
  const auto owner = mesh.ownership.owner().to_string();
  const bool is_live = mesh.live > 0;
  if (mesh.ownership.on_owner_gone() == Fate::lives) {
    if (!is_live) return;
    const auto words =
        "its owner is away; its lease has " + lease_left(mesh, reactor_.now()) + " left";
    log::warn("mesh " + mesh.name + ": " + words);
    events_.add(wire::EventKind::owner_away, mesh.name, owner, words);
    return;
  }
  if (is_live) log::warn("mesh " + mesh.name + ": its owner " + owner + " is gone; it is stopped");
  table_.touch(mesh);
  outputs_.stop_relaying(mesh);
  if (is_live)
    events_.add(wire::EventKind::owner_gone, mesh.name, owner, "its owner is gone: it is stopped");
  auto order = make_order(mesh, "launcher gone", wire::Cause::owner_gone);
  order.grace = std::min(order.grace, kOwnerGoneGrace);
  ending_.stop(mesh, order);
  // No rank is restarted any more: subscribers that wait for restarts need not wait longer.
  if (mesh.spec.may_restart) publish(mesh);
}

void MeshOwners::on_owner_back(Mesh& mesh) {
  if (!mesh.ownership.on_owner_back() || mesh.live == 0) return;
  log::info("mesh " + mesh.name + ": its owner " + mesh.ownership.owner().to_string() + " is back");
}

bool MeshOwners::move_owner(Mesh& mesh, const ProcId& owner, std::uint64_t incarnation) {
  const auto before = mesh.ownership.owner().to_string();
  if (!mesh.ownership.move_to(owner, incarnation)) return false;
  if (mesh.ownership.owner().to_string() == before) return true;
  log::info("mesh " + mesh.name + ": its owner " + before + " is at " + owner.to_string() + " now");
  table_.touch(mesh);
  return true;
}

Result<void> MeshOwners::hand_over(Mesh& mesh, const ProcId& owner, std::chrono::milliseconds lease,
                                   wire::OwnerLoss loss) {
  const auto before = mesh.ownership.owner().to_string();
  const auto is_other = mesh.ownership.hand_over(mesh.name, owner, lease, loss, reactor_.now());
  if (!is_other) return fail(is_other.error());
  if (*is_other) {
    outputs_.stop_relaying(mesh);
    if (mesh.live > 0)
      events_.add(wire::EventKind::handed_over, mesh.name, before,
                  owner.to_string() + " answers for it from now on");
  }
  arm(mesh);
  table_.touch(mesh);
  return {};
}

void MeshOwners::forget(const Mesh& mesh) {
  const auto found = timers_.find(mesh.name);
  if (found == timers_.end()) return;
  reactor_.cancel(found->second);
  timers_.erase(found);
}

}  // namespace meshbus::host

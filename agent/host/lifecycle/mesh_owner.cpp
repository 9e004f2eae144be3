// What MeshProcs does about those who answer for meshes: owners, leases, handover
// (docs/decisions/0020-handover.md).
#include <algorithm>

#include "agent/host/lifecycle/mesh_procs.h"
#include "common/base/log.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

constexpr std::chrono::milliseconds kOwnerGoneGrace{1000};

std::string lease_left(const Mesh& mesh, Reactor::Time now) {
  const auto due = mesh.lease.due().value_or(now);
  return std::to_string(std::max<std::int64_t>(
             std::chrono::duration_cast<std::chrono::milliseconds>(due - now).count(), 0)) +
         " ms";
}

}  // namespace

void MeshProcs::arm_lease(Mesh& mesh) {
  reactor_.cancel(mesh.lease_timer);
  mesh.lease_timer = 0;
  if (mesh.owner_gone) return;
  if (const auto due = mesh.lease.due())
    mesh.lease_timer = reactor_.at(*due, [this, name = mesh.name] { check_lease(name); });
}

void MeshProcs::renew_lease(Mesh& mesh, std::chrono::milliseconds length) {
  if (length.count() > 0 && length != mesh.lease.length()) table_.touch(mesh);
  mesh.lease.renew(reactor_.now(), length);
  arm_lease(mesh);
}

void MeshProcs::check_lease(const std::string& name) {
  Mesh* mesh = table_.find_mesh(name);
  if (mesh == nullptr || mesh->live == 0) return;
  if (!mesh->lease.has_lapsed(reactor_.now())) return arm_lease(*mesh);
  const auto why = "its owner did not renew its lease of " +
                   std::to_string(mesh->lease.length().count()) + " ms";
  const bool is_detached = mesh->loss == wire::OwnerLoss::detach;
  const std::string then = is_detached ? "it lives on, and nobody answers for it" : "it is stopped";
  log::warn("mesh " + name + ": " + why + ": " + then);
  book_.add(wire::EventKind::lease_lapsed, name, mesh->spec.owner.to_string(), why + ": " + then);
  if (is_detached) {
    mesh->owner_gone = true;
    table_.touch(*mesh);
    stop_streaming(*mesh);
    events_.on_owner_changed(*mesh);
    return;
  }
  ending_.stop(*mesh, {.reason = "lease lapsed",
                       .requester = "host agent of " + options_.host,
                       .grace = mesh->spec.grace,
                       .cause = wire::Cause::lease_lapsed});
}

void MeshProcs::stop_streaming(Mesh& mesh) {
  outputs_.stop_relaying(mesh);
  relaying_.erase(&mesh);
  for (const auto& [rank, proc] : mesh.procs) free_slot(*proc);
}

void MeshProcs::on_owner_gone(Mesh& mesh) {
  const auto owner = mesh.spec.owner.to_string();
  if (mesh.loss != wire::OwnerLoss::stop && mesh.lease.due()) {
    mesh.owner_away = true;
    if (mesh.live == 0) return;
    const auto words =
        "its owner is away; its lease has " + lease_left(mesh, reactor_.now()) + " left";
    log::warn("mesh " + mesh.name + ": " + words);
    return book_.add(wire::EventKind::owner_away, mesh.name, owner, words);
  }
  if (mesh.live > 0)
    log::warn("mesh " + mesh.name + ": its owner " + owner + " is gone; it is stopped");
  mesh.owner_gone = true;
  table_.touch(mesh);
  stop_streaming(mesh);
  if (mesh.live > 0)
    book_.add(wire::EventKind::owner_gone, mesh.name, owner, "its owner is gone: it is stopped");
  ending_.stop(mesh, {.reason = "launcher gone",
                      .requester = "host agent of " + options_.host,
                      .grace = std::min(mesh.spec.grace, kOwnerGoneGrace),
                      .cause = wire::Cause::owner_gone});
  // Who waited for new lives waits no longer.
  if (mesh.spec.begins_anew) events_.on_owner_changed(mesh);
}

void MeshProcs::on_owner_back(Mesh& mesh) {
  if (!std::exchange(mesh.owner_away, false) || mesh.live == 0) return;
  log::info("mesh " + mesh.name + ": its owner " + mesh.spec.owner.to_string() + " is back");
}

Result<void> MeshProcs::hand_over(Mesh& mesh, const ProcId& owner, std::chrono::milliseconds lease,
                                  wire::OwnerLoss loss) {
  const bool is_detached = mesh.owner_gone && mesh.loss == wire::OwnerLoss::detach;
  if (mesh.owner_gone && !is_detached)
    return fail(ErrorCode::refused,
                "mesh " + mesh.name +
                    " is being stopped: its owner is gone; it is too late to hand it over");
  if (is_detached || owner != mesh.spec.owner) {
    const auto before = mesh.spec.owner.to_string();
    mesh.handed_by = before;
    mesh.spec.owner = owner;
    mesh.owner_key = owner.key();
    mesh.owner_gone = false;
    mesh.owner_away = false;
    stop_streaming(mesh);
    if (mesh.live > 0)
      book_.add(wire::EventKind::handed_over, mesh.name, before,
                owner.to_string() + " answers for it from now on");
  }
  mesh.loss = loss;
  mesh.lease = Lease(reactor_.now(), lease);
  arm_lease(mesh);
  table_.touch(mesh);
  events_.on_owner_changed(mesh);
  return {};
}

}  // namespace meshbus::host

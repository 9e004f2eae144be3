#include "client/controller/owned_meshes.h"

#include "common/address/host_resource.h"

namespace meshbus {

bool OwnedMeshes::note_host(const HostAddr& host, const std::optional<OwnerUpdate>& owner) {
  if (!owner) return host_owners_.erase(host) != 0;
  const auto [known, is_new] = host_owners_.try_emplace(host, *owner);
  const auto& before = known->second;
  const bool is_same = before.owner == owner->owner && before.lease == owner->lease &&
                       before.loss == owner->loss && before.is_gone == owner->is_gone;
  if (!is_new && is_same) return false;
  known->second = *owner;
  return true;
}

bool OwnedMeshes::is_ours(const HostAddr& host) const {
  const auto found = host_owners_.find(host);
  return found != host_owners_.end() && is_ours(found->second);
}

std::vector<HostAddr> OwnedMeshes::hosts(bool that_end) const {
  std::vector<HostAddr> list;
  for (const auto& [host, owner] : host_owners_) {
    if (is_ours(owner) && !(that_end && owner.loss == wire::OwnerLoss::detach))
      list.push_back(host);
  }
  return list;
}

void OwnedMeshes::note_leases(const Meshes& meshes, const std::vector<HostAddr>& hosts) {
  if (names_.empty()) return;
  std::erase_if(held_, [&](const auto& name) {
    const auto mesh = meshes.find(name);
    if (mesh == meshes.end()) return true;
    // The handover that had failed is done on all hosts after all.
    return !paused_.contains(name) && !mesh->second.owners().names_any_of(names_);
  });
  std::map<HostAddr, std::map<std::string, std::chrono::milliseconds>> leases;
  for (const auto& [name, mesh] : meshes) {
    if (!may_renew(mesh)) continue;
    for (const auto& host : hosts) {
      const auto lease = mesh.owners().lease_on(host);
      const bool is_needed = mesh.live_on(host) != 0 || mesh.owners().may_restart_on(host);
      if (lease.count() > 0 && is_needed) leases[host].emplace(name, lease);
    }
  }
  for (const auto& [host, owner] : host_owners_) {
    if (is_ours(owner) && owner.lease.count() > 0) leases[host].emplace(kHostResource, owner.lease);
  }
  for (const auto& host : hosts) hosts_[host].leases.set(leases[host]);
}

std::vector<std::string> OwnedMeshes::renew(const HostAddr& host, Time now) {
  const auto due = next_due(host);
  if (!due || *due > now) return {};
  auto& here = hosts_.at(host);
  here.is_renewing = true;
  return here.leases.renew(now);
}

void OwnedMeshes::on_renewed(const HostAddr& host, const std::vector<std::string>& meshes,
                             bool is_done, Time now) {
  auto& here = hosts_[host];
  here.is_renewing = false;
  if (!is_done) here.leases.failed(meshes, now);
}

void OwnedMeshes::on_connected() {
  for (auto& [host, here] : hosts_) here.is_renewing = false;
}

std::optional<OwnedMeshes::Time> OwnedMeshes::next_due(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || found->second.is_renewing) return std::nullopt;
  return found->second.leases.due();
}

}  // namespace meshbus

#include "client/controller/owned_meshes.h"

namespace meshbus {

void OwnedMeshes::note_leases(const Meshes& meshes, const std::vector<HostAddr>& hosts) {
  if (names_.empty()) return;
  std::erase_if(held_, [&](const auto& name) { return !meshes.contains(name); });
  std::map<HostAddr, std::map<std::string, std::chrono::milliseconds>> leases;
  for (const auto& [name, mesh] : meshes) {
    if (!contains(mesh)) continue;
    for (const auto& host : hosts) {
      const auto lease = mesh.owners().lease_on(host);
      const bool is_needed = mesh.live_on(host) != 0 || mesh.owners().may_restart_on(host);
      if (lease.count() > 0 && is_needed) leases[host].emplace(name, lease);
    }
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

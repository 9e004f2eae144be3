#include "client/src/monitors/mesh_owners.h"

#include <algorithm>

#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

std::vector<HostAddr> hosts_with_ranks(const ProcMeshRef& mesh) {
  std::vector<HostAddr> hosts;
  for (std::uint64_t index = 0; index < mesh.hosts().size(); ++index) {
    if (mesh.block_of(index).value_or(RankBlock{}).size() != 0)
      hosts.push_back(mesh.hosts()[index]);
  }
  return hosts;
}

}  // namespace

bool MeshOwners::take(const ProcMeshRef& mesh, const HostAddr& from,
                      const wire::Ownership& ownership) {
  if (ownership.may_restart() && !ownership.gone()) {
    restarts_over_on_.erase(from);
  } else {
    restarts_over_on_.insert(from);
  }
  if (is_handed_over_ || (handed_to_.empty() && !is_taking_)) return false;
  owners_[from] = ownership.gone() ? std::string() : ownership.owner()->str();
  if (handed_to_.empty()) return false;
  const auto hosts = hosts_with_ranks(mesh);
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const HostAddr& host) { return names(host, handed_to_); });
}

bool MeshOwners::names(const HostAddr& host, const std::string& owner) const {
  const auto found = owners_.find(host);
  return found != owners_.end() && found->second == owner;
}

bool MeshOwners::may_restart(const ProcMeshRef& mesh) const {
  const auto hosts = hosts_with_ranks(mesh);
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const HostAddr& host) { return !restarts_over_on_.contains(host); });
}

RankSet stopped_on(const ProcMeshRef& mesh, const HostAddr& host,
                   const wire::Ownership& ownership) {
  RankSet stopped;
  if (ownership.stopped() == nullptr) return stopped;
  for (std::uint64_t index = 0; index < mesh.hosts().size(); ++index) {
    if (mesh.hosts()[index] != host) continue;
    const auto here = mesh.block_of(index).value_or(RankBlock{});
    for (const auto* const block : *ownership.stopped()) {
      const RankBlock common{std::max(here.begin, block->begin()),
                             std::min(here.end, block->end())};
      if (common.begin < common.end) stopped.push_back(common);
    }
  }
  return stopped;
}

}  // namespace meshbus

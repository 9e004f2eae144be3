#include "cli/support/mesh_listings.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace meshbus::cli {

bool is_silent(const MeshListing& listing, const HostAddr& host) {
  return std::any_of(listing.unreachable.begin(), listing.unreachable.end(),
                     [&](const HostReport& silent) { return silent.host == host; });
}

std::vector<MeshReport> merged(std::vector<MeshReport> meshes) {
  std::map<std::string, MeshReport> by_name;
  for (auto& mesh : meshes) {
    const auto [at, is_new] = by_name.try_emplace(mesh.name, mesh);
    if (is_new) continue;
    auto& ranks = at->second.ranks;
    ranks.insert(ranks.end(), mesh.ranks.begin(), mesh.ranks.end());
    std::sort(ranks.begin(), ranks.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
  }
  std::vector<MeshReport> all;
  for (auto& [name, mesh] : by_name) all.push_back(std::move(mesh));
  return all;
}

MeshListing renewed(MeshListing before, MeshListing now) {
  for (auto& mesh : before.meshes) {
    if (std::none_of(mesh.hosts.begin(), mesh.hosts.end(),
                     [&](const HostAddr& host) { return is_silent(now, host); }))
      continue;
    mesh.ranks.clear();
    now.meshes.push_back(std::move(mesh));
  }
  now.meshes = merged(std::move(now.meshes));
  return now;
}

}  // namespace meshbus::cli

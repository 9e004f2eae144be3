#include "common/address/mesh_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/wire/wire_region.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

bool is_whole(const Region& region) {
  return region == Region(region.extent());
}

}  // namespace

Result<MeshLayout> resized(const MeshLayout& before, std::vector<HostAddr> hosts) {
  const auto refused = [](const std::string& why) { return fail(ErrorCode::refused, why); };
  const auto extent = before.region.extent();
  const auto ranks = extent.num_ranks();
  if (extent.num_dims() == 0)
    return refused("it has no axis to grow or shrink along: it is one rank");
  if (ranks == 0 || before.hosts.empty()) return refused("it has no ranks");
  if (!is_whole(before.region)) return refused("it is a slice; resize the whole mesh");
  const auto& axis = extent.labels().front();
  if (ranks % before.hosts.size() != 0)
    return refused("its " + std::to_string(ranks) + " ranks lie unevenly on its " +
                   std::to_string(before.hosts.size()) +
                   " hosts: with another host some would have to move");
  const auto common = std::min(before.hosts.size(), hosts.size());
  if (!std::equal(before.hosts.begin(), before.hosts.begin() + static_cast<std::ptrdiff_t>(common),
                  hosts.begin()))
    return refused("only blocks at the end of axis " + axis + " can come or go");
  if (hosts.empty()) return refused("no rank would be left; stop the mesh instead");
  const auto per_host = ranks / before.hosts.size();
  const auto per_index = ranks / extent.sizes().front();
  const auto after = per_host * hosts.size();
  if (after % per_index != 0)
    return refused("each index of axis " + axis + " has " + std::to_string(per_index) +
                   " ranks, and a block has " + std::to_string(per_host) +
                   ": blocks come and go in multiples of " + std::to_string(per_index / per_host));
  auto sizes = extent.sizes();
  sizes.front() = after / per_index;
  auto larger = Extent::make(extent.labels(), std::move(sizes));
  if (!larger) return refused(larger.error().detail());
  return MeshLayout{
      .region = Region(*larger), .hosts = std::move(hosts), .revision = before.revision + 1};
}

Result<MeshLayout> replaced(const MeshLayout& before, const HostAddr& lost, const HostAddr& spare) {
  auto after = before;
  bool is_found = false;
  for (auto& host : after.hosts) {
    if (host != lost) continue;
    host = spare;
    is_found = true;
  }
  if (!is_found || lost == spare)
    return fail(ErrorCode::refused, "it has no ranks on host " + lost.to_string() +
                                        " that could move to host " + spare.to_string());
  ++after.revision;
  return after;
}

Result<void> check_resized(const MeshLayout& before, const MeshLayout& after) {
  const auto refused = [&](const std::string& what) {
    return fail(ErrorCode::refused,
                before.region.extent().to_string() + " on " + std::to_string(before.hosts.size()) +
                    " hosts cannot become " + after.region.extent().to_string() + " on " +
                    std::to_string(after.hosts.size()) + ": " + what);
  };
  if (before.hosts.empty() || after.hosts.empty()) return refused("there are no hosts");
  if (!is_whole(after.region)) return refused("it is a slice");
  if (before.region.labels() != after.region.labels()) return refused("the axes are others");
  const auto& sizes = before.region.sizes();
  const auto& later = after.region.sizes();
  if (sizes.empty() || !std::equal(sizes.begin() + 1, sizes.end(), later.begin() + 1, later.end()))
    return refused("only the first axis can change");
  // Hosts have taken the places of others: blocks stay, also uneven ones.
  if (before.region == after.region && before.hosts.size() == after.hosts.size()) return {};
  const auto per_host = before.region.num_ranks() / before.hosts.size();
  if (per_host * before.hosts.size() != before.region.num_ranks() ||
      per_host * after.hosts.size() != after.region.num_ranks())
    return refused("ranks would have to move");
  return {};
}

const HostAddr& host_of(const MeshLayout& layout, std::uint64_t rank) {
  // As ProcMeshRef::host_index_of(): the first blocks have one rank more when they are uneven.
  const auto small = layout.region.num_ranks() / layout.hosts.size();
  const auto large_blocks = layout.region.num_ranks() % layout.hosts.size();
  const auto in_large = large_blocks * (small + 1);
  if (rank < in_large) return layout.hosts[rank / (small + 1)];
  return layout.hosts[large_blocks + (rank - in_large) / small];
}

std::unique_ptr<wire::MeshLayoutT> to_wire(const MeshLayout& layout) {
  auto out = std::make_unique<wire::MeshLayoutT>();
  out->region = to_wire(layout.region);
  for (const auto& host : layout.hosts) out->hosts.push_back(host.to_string());
  out->revision = layout.revision;
  return out;
}

Result<MeshLayout> from_wire(const wire::MeshLayout& layout) {
  auto region = from_wire(layout.region());
  if (!region) return fail(region.error().within("layout"));
  MeshLayout out{.region = std::move(*region), .hosts = {}, .revision = layout.revision()};
  for (const auto* text : *layout.hosts()) {
    auto host = HostAddr::parse(text->string_view());
    if (!host) return fail(host.error().within("layout.hosts"));
    out.hosts.push_back(std::move(*host));
  }
  if (out.hosts.empty() && out.region.num_ranks() != 0)
    return fail(ErrorCode::configuration_error, "layout: there are ranks but no hosts");
  return out;
}

}  // namespace meshbus

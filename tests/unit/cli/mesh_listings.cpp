#include "cli/support/mesh_listings.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace meshbus::cli {
namespace {

HostAddr host_named(const std::string& name) {
  return *HostAddr::parse("tcp:" + name + ":7420");
}

MeshReport mesh_of(const std::string& name, const std::vector<HostAddr>& hosts,
                   const std::vector<std::uint64_t>& ranks) {
  MeshReport mesh;
  mesh.name = name;
  mesh.hosts = hosts;
  for (const auto rank : ranks) mesh.ranks.emplace_back().rank = rank;
  return mesh;
}

HostReport silent(const HostAddr& host) {
  HostReport report;
  report.host = host;
  report.code = ErrorCode::host_unreachable;
  return report;
}

}  // namespace

TEST_CASE("mesh_listings: a mesh of a host that is lost stays, and its ranks there are unknown") {
  const auto a = host_named("a");
  const auto b = host_named("b");
  const MeshListing before{
      {mesh_of("both", {a, b}, {0, 1}), mesh_of("on_a", {a}, {0}), mesh_of("on_b", {b}, {0})}, {}};
  // The other host has forgotten its own mesh.
  const MeshListing now{{mesh_of("both", {a, b}, {0}), mesh_of("new", {a}, {0})}, {silent(b)}};
  const auto listing = renewed(before, now);
  REQUIRE(listing.meshes.size() == 3);
  CHECK(listing.meshes[0].name == "both");
  REQUIRE(listing.meshes[0].ranks.size() == 1);
  CHECK(listing.meshes[0].ranks[0].rank == 0);
  CHECK(listing.meshes[1].name == "new");
  CHECK(listing.meshes[2].name == "on_b");
  CHECK(listing.meshes[2].ranks.empty());
  REQUIRE(listing.unreachable.size() == 1);
  CHECK(listing.unreachable[0].host == b);
}

}  // namespace meshbus::cli

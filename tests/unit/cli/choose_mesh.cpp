#include "cli/support/choose_mesh.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cli/support/exit_codes.h"
#include "meshbus/extent.h"

namespace meshbus::cli {
namespace {

const HostAddr kFirst = *HostAddr::parse("tcp:a:7420");
const HostAddr kSecond = *HostAddr::parse("tcp:b:7420");

/// A mesh with one rank on each of the two hosts: that of the first one has ended, and the second
/// one says nothing, or that its rank has ended, too.
MeshListing listing_of(bool is_second_silent) {
  MeshReport mesh;
  mesh.name = "train-13Se1Maqzryj";
  mesh.region = Region(*Extent::parse("host=2"));
  mesh.hosts = {kFirst, kSecond};
  const std::uint64_t heard = is_second_silent ? 1 : 2;
  for (std::uint64_t rank = 0; rank < heard; ++rank) {
    auto& report = mesh.ranks.emplace_back();
    report.rank = rank;
    report.state = ProcState::stopped;
  }
  MeshListing listing{{mesh}, {}};
  if (is_second_silent) {
    HostReport silent;
    silent.host = kSecond;
    silent.code = ErrorCode::host_unreachable;
    listing.unreachable.push_back(silent);
  }
  return listing;
}

}  // namespace

TEST_CASE("choose_mesh: a mesh whose last rank may live on a host that is silent is no ended one") {
  const auto listing = listing_of(true);
  REQUIRE(listing.meshes[0].ref().has_value());
  CHECK(choose_mesh(listing, "train", Among::live) == &listing.meshes[0]);
  CHECK(choose_ranks(listing, "train[1]", Among::live).mesh == &listing.meshes[0]);
  for (const MeshChoice& choice : {MeshChoice{.is_all = true}, MeshChoice{.selector = "tr*"}})
    CHECK(choose_meshes(listing, choice, Among::live).all.size() == 1);
}

TEST_CASE("choose_mesh: one whose ranks have all ended is, and --all has nothing left to do") {
  const auto listing = listing_of(false);
  CHECK(choose_mesh(listing, "train", Among::live) == nullptr);
  CHECK(choose_mesh(listing, "train", Among::all) == &listing.meshes[0]);
  const auto none = choose_meshes(listing, {.is_all = true}, Among::live);
  CHECK(none.all.empty());
  CHECK(none.code == 0);
  // Nobody knows what a host that does not answer has.
  MeshListing unknown;
  unknown.unreachable = listing_of(true).unreachable;
  CHECK(choose_meshes(unknown, {.is_all = true}, Among::live).code == kFailed);
}

}  // namespace meshbus::cli

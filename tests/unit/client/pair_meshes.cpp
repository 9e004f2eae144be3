// Meshes of a pair of controllers in a simulated world (tests/unit/supervision/pair_world.h): the
// controller that acts is lost, also together with a host of theirs.
//   MESHBUS_TEST_PAIR_MESH_SEEDS=2000   so many seeds instead of 20
//   MESHBUS_TEST_PAIR_MESH_SEED=4711    from that one on
#include <cstdlib>

#include <doctest/doctest.h>

#include "tests/unit/supervision/pair_world.h"

namespace meshbus::test {
namespace {

using namespace std::chrono_literals;

std::uint64_t pair_mesh_setting(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr std::size_t kHosts = 3;
constexpr std::size_t kControllers = 2;

/// Two controllers, of which one acts, and a mesh on the first two of three hosts.
struct PairOfTwo {
  SupervisedPairWorld world;
  std::size_t first = 0;
  std::size_t second = 0;
  std::string mesh;
  explicit PairOfTwo(std::uint64_t seed) : world(seed, kHosts, kControllers) {
    world.run(2s);
    REQUIRE(world.actor().has_value());
    first = *world.actor();
    second = 1 - first;
    mesh = world.make_mesh({0, 1});
    world.run(1s);
    REQUIRE(world.is_owned_by(first, mesh));
  }
  /// Only the controller that acts now reaches that host.
  void cut_off_with_first(std::size_t host) {
    world.cut(second, host, true);
    for (std::size_t other = 0; other < kHosts; ++other) {
      if (other != host) world.cut(first, other, true);
    }
  }
};

}  // namespace

TEST_CASE(
    "pair_meshes: a host is lost together with the controller that acts: the ranks elsewhere are "
    "renewed and restarted") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    PairOfTwo pair(seed);
    pair.world.kill_host(0);
    pair.world.kill_seat(pair.first);
    pair.world.run(2 * SupervisedPairWorld::kLease);
    REQUIRE(pair.world.actor() == pair.second);
    CHECK(pair.world.is_owned_by(pair.second, pair.mesh));
    CHECK(pair.world.owner_on(1, pair.mesh) == SupervisedPairWorld::name_of(pair.second));
    REQUIRE(pair.world.is_live_on(1, pair.mesh));
    pair.world.kill_rank(pair.mesh, 1);
    pair.world.run(2s);
    CHECK(pair.world.is_live_on(1, pair.mesh));
    CHECK(pair.world.restarts_on(1, pair.mesh) == 1);
    pair.world.check_quiet();
    CHECK(pair.world.problem() == "");
    CHECK(pair.world.blind_gains() == 1);
  }
}

TEST_CASE(
    "pair_meshes: a host that was cut off together with the controller that acted is claimed when "
    "it is back, and the mesh stays with the other controller") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    PairOfTwo pair(seed);
    pair.cut_off_with_first(0);
    pair.world.run(6s);
    REQUIRE(pair.world.actor() == pair.second);
    CHECK(pair.world.is_owned_by(pair.second, pair.mesh));
    CHECK(pair.world.owner_on(0, pair.mesh) == SupervisedPairWorld::name_of(pair.first));
    const auto gains = pair.world.gains();
    pair.world.heal();
    pair.world.run(3s);
    CHECK(pair.world.owner_on(0, pair.mesh) == SupervisedPairWorld::name_of(pair.second));
    CHECK(pair.world.is_owned_by(pair.second, pair.mesh));
    // It was its own all the time.
    CHECK(pair.world.gains() == gains);
    pair.world.kill_rank(pair.mesh, 0);
    pair.world.run(2s);
    CHECK(pair.world.restarts_on(0, pair.mesh) == 1);
    pair.world.check_quiet();
    CHECK(pair.world.problem() == "");
  }
}

TEST_CASE(
    "pair_meshes: what was handed to a launcher on the host that is cut off is let go of when the "
    "host is back") {
  std::size_t handed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    PairOfTwo pair(seed);
    pair.cut_off_with_first(0);
    // It acts still, for those that can hear it.
    pair.world.take_over(pair.mesh);
    pair.world.run(6s);
    REQUIRE(pair.world.actor() == pair.second);
    if (pair.world.owner_on(0, pair.mesh) == SupervisedPairWorld::name_of(pair.first)) continue;
    ++handed;
    CHECK(pair.world.is_owned_by(pair.second, pair.mesh));
    pair.world.heal();
    pair.world.run(3s);
    CHECK_FALSE(pair.world.is_owned_by(pair.second, pair.mesh));
    CHECK(pair.world.owner_on(0, pair.mesh) != SupervisedPairWorld::name_of(pair.second));
    pair.world.kill_rank(pair.mesh, 0);
    pair.world.run(2s);
    CHECK(pair.world.restarts_on(0, pair.mesh) == 0);
    // The launcher gives it up: then it is whole again.
    pair.world.give_back(pair.mesh);
    pair.world.run(3s);
    CHECK(pair.world.is_owned_by(pair.second, pair.mesh));
    CHECK(pair.world.restarts_on(0, pair.mesh) == 1);
    CHECK(pair.world.problem() == "");
  }
  CHECK(handed > 10);
}

TEST_CASE(
    "pair_meshes: whatever happens, a mesh has one owner at a time, and later each has the "
    "controller that acts") {
  const auto seeds = pair_mesh_setting("MESHBUS_TEST_PAIR_MESH_SEEDS", 20);
  const auto first = pair_mesh_setting("MESHBUS_TEST_PAIR_MESH_SEED", 1);
  std::size_t gains = 0;
  std::size_t blind = 0;
  std::size_t restarts = 0;
  std::size_t launchers = 0;
  for (auto seed = first; seed < first + seeds; ++seed) {
    CAPTURE(seed);
    const auto hosts = 3 + seed % 3;
    SupervisedPairWorld world(seed, hosts, 2 + seed / 3 % 2);
    world.run(3s);
    REQUIRE(world.actor().has_value());
    for (std::size_t i = 0; i < 3; ++i) world.make_mesh({i % hosts, (i + 1) % hosts});
    for (int round = 0; round < 3; ++round) {
      world.torment(10s, (hosts - 1) / 2);
      world.heal();
      world.run(8s);
      world.check_quiet();
      REQUIRE(world.problem() == "");
    }
    gains += world.gains();
    blind += world.blind_gains();
    restarts += world.restarts();
    launchers += world.launcher_meshes();
  }
  // It is no proof when nothing happened.
  if (seeds >= 20) {
    CHECK(gains > 3 * seeds);
    CHECK(blind > seeds / 2);
    CHECK(restarts > seeds);
    CHECK(launchers > seeds / 2);
  }
  MESSAGE(seeds << " runs: " << gains << " times a controller that began to act had a mesh, "
                << blind << " of them without the word of all its hosts; " << restarts
                << " restarts; a launcher took " << launchers << " meshes over");
}

}  // namespace meshbus::test

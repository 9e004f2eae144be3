// Whatever happens to several controllers of the same hosts, never do two act.
//   MESHBUS_TEST_PAIR_SEEDS=100000   so many seeds instead of 60
//   MESHBUS_TEST_PAIR_SEED=4711      from that one on
#include <cstdlib>

#include <doctest/doctest.h>

#include "tests/unit/agent/host/pair_world.h"

namespace meshbus::test::pair_world {

inline std::uint64_t seeds_to_try() {
  const char* const wanted = std::getenv("MESHBUS_TEST_PAIR_SEEDS");
  return wanted == nullptr ? 60 : std::strtoull(wanted, nullptr, 10);
}

inline std::uint64_t first_seed() {
  const char* const wanted = std::getenv("MESHBUS_TEST_PAIR_SEED");
  return wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
}

TEST_CASE("candidacy: the first of two acts, and the other one takes over within two leases") {
  for (const std::size_t hosts : {1U, 2U, 3U, 4U, 5U}) {
    PairWorld world(hosts, hosts, 2);
    CAPTURE(hosts);
    world.run(1s);
    const auto first = world.actor();
    REQUIRE(first.has_value());
    world.run(10s);
    CHECK(world.changes() == 1);
    world.kill(*first);
    world.run(2 * kTermLease);
    CHECK(world.actor() == 1 - *first);
    CHECK(world.changes() == 2);
    CHECK(world.problem().empty());
  }
}

TEST_CASE("candidacy: a host that has granted the same term to a controller without a majority") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    PairWorld world(seed, 3, 2);
    CAPTURE(seed);
    // Both begin at once: some votes are split.
    world.run(4 * kTermLease);
    CHECK(world.is_known_everywhere());
    CHECK(world.changes() == 1);
  }
}

TEST_CASE("candidacy: a controller that is frozen for longer than its lease does nothing more") {
  PairWorld world(3, 3, 2);
  world.run(1s);
  const auto first = *world.actor();
  world.freeze(first, true);
  world.run(2 * kTermLease);
  REQUIRE(world.actor() == 1 - first);
  world.freeze(first, false);
  world.run(3 * kTermLease);
  CHECK(world.actor() == 1 - first);
  CHECK(world.changes() == 2);
}

TEST_CASE("candidacy: with half of the hosts of two, the acting one goes on; the other one waits") {
  PairWorld world(9, 2, 2);
  world.run(1s);
  const auto first = *world.actor();
  world.cut(first, 0, true);
  world.cut(1 - first, 0, true);
  world.run(5 * kTermLease);
  CHECK(world.actor() == first);
  CHECK(world.changes() == 1);
}

TEST_CASE("candidacy: one that is cut off from a majority stands by; the other one acts") {
  PairWorld world(10, 3, 2);
  world.run(1s);
  const auto first = *world.actor();
  world.cut(first, 0, true);
  world.cut(first, 1, true);
  world.run(2 * kTermLease);
  CHECK(world.actor() == 1 - first);
  CHECK(world.problem().empty());
}

TEST_CASE("candidacy: given up in order, a term goes over at once") {
  PairWorld world(11, 3, 2);
  world.run(1s);
  const auto first = *world.actor();
  world.kill(1 - first);
  world.begin(1 - first);
  world.run(1s);
  world.give_up(first);
  world.run(kTermLease / 2);
  CHECK(world.actor().has_value());
  CHECK(world.changes() == 2);
}

TEST_CASE("candidacy: whatever happens, never do two act, and later one does") {
  std::size_t changes = 0;
  std::size_t orders = 0;
  std::size_t refused = 0;
  const auto first = first_seed();
  for (auto seed = first; seed < first + seeds_to_try(); ++seed) {
    PairWorld world(seed, 1 + seed % 5, 2 + seed / 5 % 2);
    CAPTURE(seed);
    for (int round = 0; round < 3; ++round) {
      world.torment(8 * kTermLease);
      world.heal();
      world.run(8 * kTermLease);
      REQUIRE(world.problem() == "");
      REQUIRE(world.actor().has_value());
      REQUIRE(world.is_known_everywhere());
    }
    changes += world.changes();
    orders += world.orders();
    refused += world.refused();
  }
  // They did take over from each other, and there were orders that came too late.
  CHECK(changes > 4 * seeds_to_try());
  CHECK(orders > 100 * seeds_to_try());
  CHECK(refused != 0);
  MESSAGE(seeds_to_try() << " runs: " << changes << " controllers began to act; of " << orders
                         << " orders " << refused << " were refused; never did two act");
}

}  // namespace meshbus::test::pair_world

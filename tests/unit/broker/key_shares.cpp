#include "broker/transport/key_shares.h"

#include <doctest/doctest.h>

using meshbus::KeyShares;

TEST_CASE("key_shares: one key has so many connections, and others have their own") {
  KeyShares shares({.connections = 2});
  CHECK(shares.enter(1, "olga"));
  CHECK(shares.enter(2, "olga"));
  CHECK_FALSE(shares.enter(3, "olga"));
  CHECK(shares.enter(4, "carl"));
  shares.leave(3);  // it never came in
  CHECK_FALSE(shares.enter(3, "olga"));
  shares.leave(1);
  CHECK(shares.enter(3, "olga"));
}

TEST_CASE("key_shares: of too many unfinished messages of a key the one that began first goes") {
  KeyShares shares({.connections = 10, .bytes = 100});
  for (meshbus::ConnectionId id = 1; id <= 3; ++id) REQUIRE(shares.enter(id, "olga"));
  REQUIRE(shares.enter(4, "carl"));
  CHECK_FALSE(shares.hold(1, 0, 30).has_value());
  CHECK_FALSE(shares.hold(2, 0, 40).has_value());
  CHECK_FALSE(shares.hold(4, 0, 100).has_value());
  // The message of 1 has come whole, and its next one is younger than that of 2.
  CHECK_FALSE(shares.hold(1, 1, 30).has_value());
  CHECK(shares.hold(3, 0, 50) == 2);
  shares.leave(2);
  CHECK_FALSE(shares.hold(3, 0, 70).has_value());
  CHECK(shares.hold(3, 0, 71) == 1);
  // All whole: nothing is held.
  CHECK_FALSE(shares.hold(1, 2, 0).has_value());
  CHECK_FALSE(shares.hold(3, 1, 100).has_value());
  // One alone may be the first.
  CHECK(shares.hold(3, 1, 101) == 3);
}

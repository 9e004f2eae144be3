#include "broker/transport/handshake_pool.h"

#include <doctest/doctest.h>

#include "broker/transport/handshake_turns.h"

using namespace meshbus;
using namespace std::chrono_literals;

TEST_CASE("handshake pool: a network beyond its share loses its own oldest connection") {
  HandshakePool pool({.all = 10, .per_network = 2});
  CHECK_FALSE(pool.enter(1, "a"));
  CHECK_FALSE(pool.enter(2, "b"));
  CHECK_FALSE(pool.enter(3, "a"));
  CHECK(pool.enter(4, "a") == 1);
  CHECK_FALSE(pool.contains(1));
  CHECK(pool.enter(5, "a") == 3);
  CHECK(pool.size() == 3);
  pool.leave(4);
  CHECK_FALSE(pool.enter(6, "a"));
}

TEST_CASE("handshake pool: when it is full, the network that has the most loses its oldest") {
  HandshakePool pool({.all = 4, .per_network = 3});
  for (ConnectionId id = 1; id <= 3; ++id) CHECK_FALSE(pool.enter(id, "flood"));
  CHECK_FALSE(pool.enter(4, "b"));
  CHECK(pool.enter(5, "c") == 1);
  CHECK(pool.contains(4));
  CHECK(pool.contains(5));
  CHECK(pool.size() == 4);
}

TEST_CASE("handshake pool: what has left, or was never there, is no matter") {
  HandshakePool pool({.all = 1, .per_network = 1});
  pool.leave(7);
  CHECK_FALSE(pool.enter(1, "a"));
  pool.leave(1);
  pool.leave(1);
  CHECK(pool.size() == 0);
  CHECK_FALSE(pool.enter(2, "b"));
}

TEST_CASE("handshake turns: one at once, the others in line, three quarters of the time at rest") {
  HandshakeTurns turns;
  const HandshakeTurns::Time t0{10s};
  CHECK(turns.take(1, t0));
  CHECK_FALSE(turns.due());
  turns.spent(1ms, t0 + 1ms);
  CHECK_FALSE(turns.take(2, t0 + 1ms));
  CHECK_FALSE(turns.take(3, t0 + 2ms));
  CHECK_FALSE(turns.take(2, t0 + 2ms));  // it is in line already
  REQUIRE(turns.due());
  CHECK(*turns.due() == t0 + 4ms);
  CHECK_FALSE(turns.next(t0 + 3ms));
  CHECK(turns.next(t0 + 4ms) == 2);
  CHECK(turns.next(t0 + 4ms) == 3);
  CHECK_FALSE(turns.next(t0 + 4ms));
  CHECK_FALSE(turns.due());
  CHECK(turns.take(4, t0 + 4ms));
}

#include "client/src/monitors/actor_revival.h"

#include <doctest/doctest.h>

#include "meshbus/actor_mesh.h"

using namespace meshbus;
using Orders = std::vector<ActorRevival::Order>;

TEST_CASE("actor_revival: each attempt of a rank is ordered once, and only its own answer counts") {
  ActorRevival revival(3, "params", {});
  CHECK(revival.take_wanted().empty());
  revival.on_ready({1, 1});
  revival.on_ready({1, 1});
  CHECK(revival.is_due(1));
  CHECK(revival.take_wanted() == Orders{{1, 1}});
  CHECK(revival.take_wanted().empty());
  CHECK(revival.is_due(1));
  // It died again before it answered.
  revival.on_ready({1, 2});
  CHECK_FALSE(revival.take_answer({1, 1}));
  CHECK(revival.take_wanted() == Orders{{1, 2}});
  CHECK_FALSE(revival.take_answer({1, 1}));
  CHECK(revival.take_answer({1, 2}));
  CHECK_FALSE(revival.take_answer({1, 2}));
  CHECK_FALSE(revival.is_due(1));
  // News of an attempt before.
  revival.on_ready({1, 1});
  CHECK(revival.take_wanted().empty());
}

TEST_CASE("actor_revival: an order of unknown fate is repeated for that attempt alone") {
  ActorRevival revival(1, "", {});
  revival.on_ready({0, 1});
  CHECK(revival.take_wanted() == Orders{{0, 1}});
  REQUIRE(revival.take_answer({0, 1}));
  revival.retry({0, 1});
  CHECK(revival.take_wanted() == Orders{{0, 1}});
  revival.on_ready({0, 2});
  revival.retry({0, 1});
  CHECK(revival.take_wanted() == Orders{{0, 2}});
}

TEST_CASE("actor_revival: nothing is made in an attempt that has ended") {
  ActorRevival revival(1, "", {});
  revival.on_ready({0, 1});
  CHECK(revival.take_wanted() == Orders{{0, 1}});
  revival.on_end({0, 1});
  CHECK_FALSE(revival.is_due(0));
  CHECK_FALSE(revival.take_answer({0, 1}));
  // News of the end before come late.
  revival.on_ready({0, 2});
  revival.on_end({0, 1});
  CHECK(revival.take_wanted() == Orders{{0, 2}});
}

TEST_CASE("actor_revival: generations go on over attempts") {
  ActorRevival revival(2, "", {});
  CHECK(revival.base(1) == 0);
  revival.on_made({1, 1}, 7);
  CHECK(revival.base(1) == 7);
  CHECK(revival.base(0) == 0);
}

TEST_CASE("actor_revival: once it is stopped nothing is ordered, and it names what was under way") {
  ActorRevival revival(3, "", {});
  revival.on_ready({0, 1});
  revival.take_wanted();
  revival.on_ready({2, 1});
  CHECK(revival.stop() == std::vector<std::uint64_t>{0});
  CHECK(revival.take_wanted().empty());
  CHECK_FALSE(revival.take_answer({0, 1}));
  revival.retry({0, 1});
  revival.on_ready({1, 1});
  CHECK(revival.take_wanted().empty());
  CHECK_FALSE(revival.is_due(2));
}

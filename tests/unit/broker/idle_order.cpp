#include "broker/links/idle_order.h"

#include <doctest/doctest.h>

using namespace meshbus;

TEST_CASE("idle_order: the one that has been idle longest comes first, and one that is used not at all") {
  IdleOrder order;
  CHECK_FALSE(order.take_oldest().has_value());
  for (const std::uint64_t key : {1U, 2U, 3U, 4U}) order.add(key);
  order.remove(2);
  order.remove(9);
  order.add(1);  // it was used and is idle again
  CHECK(order.size() == 3);
  CHECK(order.take_oldest() == std::uint64_t{3});
  CHECK(order.take_oldest() == std::uint64_t{4});
  CHECK(order.take_oldest() == std::uint64_t{1});
  CHECK_FALSE(order.take_oldest().has_value());
  CHECK(order.size() == 0);
}

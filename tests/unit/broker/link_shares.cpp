#include "broker/links/link_shares.h"

#include <doctest/doctest.h>

using namespace meshbus;

TEST_CASE("link_shares: each principal's links are counted, and its own oldest idle one makes room") {
  LinkShares shares;
  CHECK(shares.count("observer eve") == 0);
  CHECK_FALSE(shares.take_oldest("observer eve").has_value());
  for (const std::uint64_t key : {1U, 2U, 3U}) shares.add("observer eve", key);
  shares.add("client carl", 4);
  CHECK(shares.count("observer eve") == 3);
  CHECK(shares.count("client carl") == 1);
  shares.set_idle(1, false);
  shares.set_idle(9, true);  // nobody introduced it
  CHECK(shares.take_oldest("observer eve") == std::uint64_t{2});
  shares.remove(2);
  CHECK(shares.count("observer eve") == 2);
  CHECK(shares.take_oldest("observer eve") == std::uint64_t{3});
  shares.set_idle(3, false);
  CHECK_FALSE(shares.take_oldest("observer eve").has_value());
  shares.set_idle(1, true);
  CHECK(shares.take_oldest("observer eve") == std::uint64_t{1});
  for (const std::uint64_t key : {1U, 3U, 3U}) shares.remove(key);
  CHECK(shares.count("observer eve") == 0);
  CHECK(shares.count("client carl") == 1);
}

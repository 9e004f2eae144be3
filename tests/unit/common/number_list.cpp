#include "common/base/number_list.h"

#include <doctest/doctest.h>

using meshbus::number_list;
using meshbus::parse_number_list;
using NumberList = std::vector<std::uint32_t>;

TEST_CASE("number list: runs are ranges, and come back") {
  CHECK(number_list({}).empty());
  CHECK(number_list({7}) == "7");
  CHECK(number_list({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(parse_number_list("0-3,8,10-11", 12) == NumberList{0, 1, 2, 3, 8, 10, 11});
  CHECK(parse_number_list("", 12) == NumberList{});
}

TEST_CASE("number list: what is no ascending list of small numbers is none") {
  for (const auto* text : {"a", "1,", ",1", "1-", "-1", "3-1", "2,1", "1,1", "1-3,3", "12", "0-12",
                           "1 ", "99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number_list(text, 12).has_value());
  }
}

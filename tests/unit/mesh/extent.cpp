#include "meshbus/extent.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "meshbus/point.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;

TEST_CASE("extent: ranks are row-major, the last axis fastest") {
  const Extent extent = Extent::make({{"x", 4}, {"y", 5}}).value();
  CHECK(extent.num_ranks() == 20);
  CHECK(extent.rank_of(std::array<std::uint64_t, 2>{1, 2}) == 7U);
  CHECK(extent.point_of(7).value().to_string() == "x=1/4,y=2/5");
  CHECK(extent.size_of("y") == 5U);
  CHECK_FALSE(extent.size_of("z"));
  CHECK(extent.to_string() == "{x: 4, y: 5}");
  CHECK(Extent::make({{"host", 2}, {"gpu", 8}}).value().to_shape_string() == "{host=2,gpu=8}");
  CHECK(Extent::make({{"host", 2}, {"gpu", 8}}).value().to_argument() == "host=2,gpu=8");
}

TEST_CASE("extent: no axes is one rank, a size of 0 is none") {
  CHECK(Extent{}.num_ranks() == 1);
  CHECK(Extent{}.rank_of({}) == 0U);
  CHECK(Extent{}.point_of(0).value() == Point{});
  CHECK(Extent{}.to_string() == "{}");
  CHECK(Extent{}.to_argument().empty());
  CHECK(Extent::parse("").value() == Extent{});
  CHECK(Extent::parse(" { } ").value() == Extent{});
  const Extent empty = Extent::make({{"x", 4}, {"y", 0}}).value();
  CHECK(empty.num_ranks() == 0);
  CHECK(empty.point_of(0).error().code() == ErrorCode::out_of_range);
  CHECK(empty.rank_of(std::array<std::uint64_t, 2>{0, 0}).error().code() ==
        ErrorCode::out_of_range);
}

TEST_CASE("extent: reads every form it writes, and people's spaces") {
  const Extent extent = Extent::make({{"x", 4}, {"dim/0", 5}}).value();
  for (const char* text : {"x=4,\"dim/0\"=5", "{x=4,\"dim/0\"=5}", "{x: 4, \"dim/0\": 5}",
                           " { x : 4 ,\t\"dim/0\":05 }\n", "  x = 4 , \"dim\\u{2f}0\" = 5 "}) {
    CAPTURE(text);
    CHECK(Extent::parse(text).value() == extent);
  }
}

TEST_CASE("extent: concat joins, or names the first label that is already there") {
  const Extent a = Extent::parse("x=2,y=3").value();
  CHECK(concat(a, Extent::parse("z=4").value()).value().to_argument() == "x=2,y=3,z=4");
  CHECK(concat(a, Extent{}).value() == a);
  CHECK(concat(Extent{}, a).value() == a);
  const Error error = concat(a, Extent::parse("z=1,y=1,x=1").value()).error();
  CHECK(error.code() == ErrorCode::configuration_error);
  CHECK(error.detail().find("label y occurs twice") != std::string::npos);
}

TEST_CASE("extent: the product fits 63 bits or it is an error") {
  constexpr std::uint64_t most = (std::uint64_t{1} << 63) - 1;
  CHECK(Extent::make({{"x", most}}).value().num_ranks() == most);
  CHECK(Extent::make({{"x", most}}).value().point_of(most - 1).value().rank() == most - 1);
  CHECK(Extent::make({{"x", most + 1}}).error().code() == ErrorCode::configuration_error);
  CHECK(Extent::make({{"x", 1U << 31}, {"y", std::uint64_t{1} << 32}})
            .error()
            .detail()
            .find("exceeds 63 bits at axis y") != std::string::npos);
  CHECK_FALSE(Extent::make({{"x", ~std::uint64_t{0}}, {"y", ~std::uint64_t{0}}}));
  CHECK_FALSE(Extent::make({{"x", 0}, {"y", ~std::uint64_t{0}}}));  // no strides for it
  CHECK(Extent::make({"x"}, {1, 2}).error().detail().find("InvalidDims") != std::string::npos);
  CHECK_FALSE(Extent::make({{"", 1}}));
  CHECK_FALSE(Extent::make({{"\xFF", 1}}));
}

TEST_CASE("extent and point: ranks, points and texts agree") {
  test::for_cases(1'000, [&](test::Random& random) {
    const Extent extent = test::small_extent(random);
    CAPTURE(extent);
    REQUIRE(Extent::parse(extent.to_string()).value() == extent);
    REQUIRE(Extent::parse(extent.to_shape_string()).value() == extent);
    REQUIRE(Extent::parse(extent.to_argument()).value() == extent);
    for (std::uint64_t rank = 0; rank < extent.num_ranks(); ++rank) {
      const Point point = extent.point_of(rank).value();
      REQUIRE(point.rank() == rank);
      REQUIRE(extent.rank_of(point.coordinates()) == rank);
      REQUIRE(Point::parse(point.to_string()).value() == point);
      for (std::size_t axis = 0; axis < extent.num_dims(); ++axis) {
        REQUIRE(point.coordinate(extent.labels()[axis]) == point.coordinates()[axis]);
      }
    }
    REQUIRE(extent.point_of(extent.num_ranks()).error().code() == ErrorCode::out_of_range);
  });
}

TEST_CASE("extent and point: bad texts are refused with position") {
  struct Row {
    bool point;
    std::string text;
    std::string_view detail;
  };
  const std::vector<Row> rows = {
      {false, "x", "extent: at 1: expected '=', found the end"},
      {false, "x=", "extent: at 2: expected a size, found the end"},
      {false, "x=-1", "extent: at 2: expected a size, found '-'"},
      {false, "x=4,",
       "extent: at 4: expected a label (a letter, '_' or a quoted text), found the end"},
      {false, ",x=4", "extent: at 0: expected a label"},
      {false, "x=4;y=5", "extent: at 3: expected ',' or the end, found ';'"},
      {false, "x: 4", "extent: at 1: expected '=', found ':'"},
      {false, "{x 4}", "extent: at 3: expected ':' or '=', found '4'"},
      {false, "{x: 4, y=5}", "extent: at 8: expected ':', found '='"},
      {false, "{x: 4", "extent: at 5: expected ',' or '}', found the end"},
      {false, "{x: 4} y", "extent: at 7: expected the end, found 'y'"},
      {false, "{x: 4,}", "extent: at 6: expected a label"},
      {false, "x=4}", "extent: at 3: expected ',' or the end, found '}'"},
      {false, "host=2,host=8", "extent: at 7: label host occurs twice"},
      {false, "a=2,b=2,b=2,a=2", "extent: at 8: label b occurs twice"},
      {false, "x=18446744073709551616",
       "extent: at 2: expected a size of at most 18446744073709551615, found 18446744073709551616"},
      {false, "x=9223372036854775808",
       "extent: at 0: Overflow: the product of the sizes exceeds 63 bits at axis x"},
      {false, "x=4,y=9223372036854775807", "extent: at 4: Overflow"},
      {false, "\"\"=4", "extent: at 0: expected a label, found an empty one"},
      {true, "x=1", "point: at 3: expected '/', found the end"},
      {true, "x=4/4",
       "point: at 2: OutOfRangeIndex: expected a coordinate below its size 4, found 4"},
      {true, "x=0/1,y=0/0", "point: at 8: OutOfRangeIndex"},
      {true, "x=1/4,x=1/4", "point: at 6: label x occurs twice"},
      {true, "1/4", "point: at 0: expected a label"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto check = [&](const auto& parsed) {
      REQUIRE_FALSE(parsed);
      CHECK(parsed.error().code() == ErrorCode::parse_error);
      CHECK(parsed.error().detail().substr(0, row.detail.size()) == row.detail);
    };
    if (row.point) {
      check(Point::parse(row.text));
    } else {
      check(Extent::parse(row.text));
    }
  }
  const Extent extent = Extent::parse("x=4").value();
  CHECK(Point::make(extent, {4}).error().code() == ErrorCode::out_of_range);
  CHECK(Point::make(extent, {0, 0}).error().code() == ErrorCode::configuration_error);
}

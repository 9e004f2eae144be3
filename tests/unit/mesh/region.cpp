#include "meshbus/region.h"

#include <doctest/doctest.h>

#include <map>
#include <vector>

#include "mesh/text.h"
#include "meshbus/point.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;

namespace {

std::vector<std::uint64_t> ranks_of(const Region& region) {
  const RankRange ranks = region.ranks();
  return {ranks.begin(), ranks.end()};
}

/// What a region is, the slow way: for each axis, what each of its indices adds to the base rank.
struct Model {
  std::uint64_t offset = 0;
  std::vector<std::string> labels;
  std::vector<std::vector<std::uint64_t>> axes;

  std::vector<std::uint64_t> ranks() const {
    std::vector<std::uint64_t> out = {offset};
    for (const std::vector<std::uint64_t>& axis : axes) {
      std::vector<std::uint64_t> next;
      for (const std::uint64_t rank : out) {
        for (const std::uint64_t add : axis) next.push_back(rank + add);
      }
      out = std::move(next);
    }
    return out;
  }
};

Model model_of(const Extent& extent) {
  Model model;
  model.labels = extent.labels();
  std::uint64_t stride = 1;
  model.axes.resize(extent.num_dims());
  for (std::size_t i = extent.num_dims(); i-- > 0;) {
    for (std::uint64_t c = 0; c < extent.sizes()[i]; ++c) model.axes[i].push_back(c * stride);
    stride *= std::max<std::uint64_t>(extent.sizes()[i], 1);
  }
  return model;
}

}  // namespace

TEST_CASE("region: the spec's examples") {
  for (const char* text : {"x=2/1,y=3/2", "8+x=2/1", "8+\"dim/0\"=4/1,\"dim,1\"=5/4", "", "8+"}) {
    CAPTURE(text);
    CHECK(Region::parse(text).value().to_string() == text);
  }
  const Region mesh = Extent::make({{"replica", 2}, {"host", 2}}).value();
  CHECK(mesh.to_string() == "replica=2/2,host=2/1");
  CHECK(mesh.range("replica", 1, 2).value().to_string() == "2+replica=1/2,host=2/1");
  CHECK(mesh.at("replica", 1).value().to_string() == "2+host=2/1");
  const Region square = Extent::make({{"x", 4}, {"y", 4}}).value();
  CHECK(square.range("y", 0, std::nullopt, 3).value().to_string() == "x=4/4,y=2/3");
  CHECK(ranks_of(square.range("y", 0, std::nullopt, 3).value()) ==
        std::vector<std::uint64_t>{0, 3, 4, 7, 8, 11, 12, 15});
}

TEST_CASE("region: spaces around tokens and every escape") {
  CHECK(Region::parse(" 8 + x = 2 / 1 , \t\"dim/0\" = 3 / 2 ").value().to_string() ==
        "8+x=2/1,\"dim/0\"=3/2");
  CHECK(Region::parse("0+x=2/1").value().to_string() == "x=2/1");
  CHECK(Region::parse(R"("\"\\\n\r\t\u{e9}\u{1F600}"=1/1)").value().labels()[0] ==
        "\"\\\n\r\t\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(Region::parse(R"("x"=1/1)").value().to_string() == "x=1/1");
  CHECK(Region::make({std::string("\x1B[2J\0", 5)}, 0, {1}, {1}).value().to_string() ==
        R"("\u{1b}[2J\u{0}"=1/1)");
}

TEST_CASE("region: no axes is the one rank at the offset, a size of 0 is none") {
  const Region one = Region::parse("8+").value();
  CHECK(one.num_ranks() == 1);
  CHECK(ranks_of(one) == std::vector<std::uint64_t>{8});
  CHECK(one.ordinal_of(8) == 0U);
  CHECK_FALSE(one.contains(7));
  CHECK_FALSE(one.contains(9));
  CHECK(Region{}.to_string().empty());
  const Region none = Region::parse("3+x=0/1,y=4/1").value();
  CHECK(none.is_empty());
  CHECK(ranks_of(none).empty());
  CHECK_FALSE(none.contains(3));
  CHECK(none.range("x", 0).error().code() == ErrorCode::out_of_range);
  CHECK(none.at("y", 3).value().to_string() == "6+x=0/1");
}

TEST_CASE("region: numbers at the limits") {
  constexpr std::uint64_t top = (std::uint64_t{1} << 63) - 2;  // the highest base rank
  CHECK(Region::make({}, top, {}, {}).value().base_rank(0) == top);
  CHECK_FALSE(Region::make({}, top + 1, {}, {}));
  CHECK(Region::make({"x"}, 0, {top + 1}, {1}).value().num_ranks() == top + 1);
  CHECK_FALSE(Region::make({"x"}, 1, {top + 1}, {1}));
  CHECK(Region::make({"x"}, 0, {2}, {top}).value().ordinal_of(top) == 1U);
  CHECK_FALSE(Region::make({"x"}, 0, {2}, {top + 1}));
  CHECK_FALSE(Region::make({"x", "y"}, 0, {std::uint64_t{1} << 32, std::uint64_t{1} << 32},
                           {1, std::uint64_t{1} << 32}));
  // The stride of an axis of one index means nothing, however long.
  const Region one = Region::make({"x", "y"}, 0, {1, 2}, {~std::uint64_t{0}, 1}).value();
  CHECK(ranks_of(one) == std::vector<std::uint64_t>{0, 1});
  CHECK(one.at("x", 0).value().to_string() == "y=2/1");
  const Region stepped = one.range("y", 1, ~std::uint64_t{0}, ~std::uint64_t{0}).value();
  CHECK(stepped.range("y", 0, 1, 2).value().to_string() ==
        "1+x=1/18446744073709551615,y=1/18446744073709551615");
  CHECK(Region::make({"x"}, 0, {top + 1}, {1})
            .value()
            .range("x", top, std::nullopt, top)
            .value()
            .base_rank(0) == top);
}

TEST_CASE(
    "region: what was printed parses to an equal region, and every base rank has its ordinal") {
  test::for_cases(5'000, [&](test::Random& random) {
    const Region region = test::any_region(random);
    CAPTURE(region);
    REQUIRE(Region::parse(region.to_string()).value() == region);
    REQUIRE(region.extent().num_ranks() == region.num_ranks());
    REQUIRE(region.base_rank(region.num_ranks()).error().code() == ErrorCode::out_of_range);
    for (int n = 0; n < 4 && !region.is_empty(); ++n) {
      const std::uint64_t ordinal = n == 0 ? region.num_ranks() - 1 : random() % region.num_ranks();
      const std::uint64_t rank = region.base_rank(ordinal).value();
      REQUIRE(rank >= region.offset());
      REQUIRE(region.ordinal_of(rank) == ordinal);
      const std::uint64_t other = rank + random() % 3 - 1;
      if (const std::optional<std::uint64_t> found = region.ordinal_of(other))
        REQUIRE(region.base_rank(*found) == other);
      (void)region.ordinal_of(random());
    }
    std::uint64_t ordinal = 0;
    for (const std::uint64_t rank : region.ranks()) {
      REQUIRE(region.base_rank(ordinal) == rank);
      if (++ordinal == 50) break;
    }
  });
}

TEST_CASE(
    "region: every chain of ranges, indices and permutations is the filtered product of "
    "coordinates") {
  test::for_cases(5'000, [&](test::Random& random) {
    const Extent extent = test::small_extent(random);
    CAPTURE(extent);
    Model model = model_of(extent);
    Region region = extent;
    REQUIRE(ranks_of(region) == model.ranks());
    for (std::uint64_t n = random() % 5; n > 0 && region.num_dims() > 0; --n) {
      const std::size_t axis = random() % region.num_dims();
      const std::uint64_t size = region.sizes()[axis];
      const std::string label = region.labels()[axis];
      std::vector<std::uint64_t>& indices = model.axes[axis];
      if (random() % 4 == 0) {  // one index, the axis goes
        const std::uint64_t index = random() % (size + 1);
        const Result<Region> at = region.at(label, index);
        REQUIRE(at.has_value() == (index < size));
        if (!at) {
          REQUIRE(at.error().code() == ErrorCode::out_of_range);
          continue;
        }
        model.offset += indices[index];
        model.axes.erase(model.axes.begin() + static_cast<std::ptrdiff_t>(axis));
        model.labels.erase(model.labels.begin() + static_cast<std::ptrdiff_t>(axis));
        region = *at;
      } else if (random() % 3 == 0) {  // another order of the axes
        std::vector<std::size_t> order(region.num_dims());
        for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
        std::shuffle(order.begin(), order.end(), random);
        Model permuted;
        permuted.offset = model.offset;
        std::vector<std::uint64_t> sizes;
        std::vector<std::uint64_t> strides;
        for (const std::size_t k : order) {
          permuted.labels.push_back(model.labels[k]);
          permuted.axes.push_back(model.axes[k]);
          sizes.push_back(region.sizes()[k]);
          strides.push_back(region.strides()[k]);
        }
        region = Region::make(permuted.labels, region.offset(), sizes, strides).value();
        model = permuted;
      } else {
        const std::uint64_t begin = random() % (size + 1);
        const std::uint64_t step = random() % 10 == 0
                                       ? std::max<std::uint64_t>(test::any_number(random), 1)
                                       : 1 + random() % 4;
        std::optional<std::uint64_t> end;
        if (random() % 2 == 0)
          end = random() % 10 == 0 ? test::any_number(random) : random() % (size + 3);
        std::vector<std::uint64_t> left;
        for (std::uint64_t k = begin; k < std::min(end.value_or(size), size); k += step) {
          left.push_back(indices[k]);
          if (step >= size) break;
        }
        const Result<Region> range = region.range(label, begin, end, step);
        REQUIRE(range.has_value() == !left.empty());
        if (!range) {
          REQUIRE(range.error().code() == ErrorCode::out_of_range);
          REQUIRE(range.error().detail().find("EmptyRange") != std::string::npos);
          continue;
        }
        indices = std::move(left);
        region = *range;
      }
      CAPTURE(region);
      REQUIRE(region.labels() == model.labels);
      REQUIRE(ranks_of(region) == model.ranks());
      // It is valid by the rules for everybody else's regions, too, and it contains exactly its
      // ranks.
      REQUIRE(Region::make(region.labels(), region.offset(), region.sizes(), region.strides())
                  .value() == region);
      std::map<std::uint64_t, std::uint64_t> ordinals;
      for (const std::uint64_t rank : region.ranks()) ordinals.emplace(rank, ordinals.size());
      REQUIRE(ordinals.size() == region.num_ranks());
      for (std::uint64_t rank = 0; rank < extent.num_ranks() + 2; ++rank) {
        const auto found = ordinals.find(rank);
        REQUIRE(region.ordinal_of(rank) ==
                (found == ordinals.end() ? std::nullopt : std::optional(found->second)));
      }
    }
  });
}

TEST_CASE("region: make() accepts exactly the regions whose sorted strides leave room") {
  int valid = 0;
  test::for_cases(5'000, [&](test::Random& random) {
    const std::size_t dims = random() % 4;
    std::vector<std::uint64_t> sizes(dims);
    std::vector<std::uint64_t> strides(dims);
    for (std::uint64_t& size : sizes) size = random() % 4;
    for (std::uint64_t& stride : strides) stride = random() % 14;
    bool expected = std::count(strides.begin(), strides.end(), 0U) == 0;
    for (std::size_t a = 0; a < dims; ++a) {
      std::uint64_t smaller = 0;
      for (std::size_t b = 0; b < dims; ++b) {
        if (a != b && sizes[b] > 1 && strides[b] <= strides[a])
          smaller += (sizes[b] - 1) * strides[b];
      }
      expected = expected && (sizes[a] <= 1 || strides[a] > smaller);
    }
    const Result<Region> region =
        Region::make(test::any_labels(random, dims), random() % 9, sizes, strides);
    REQUIRE(region.has_value() == expected);
    if (!region) REQUIRE(region.error().code() == ErrorCode::configuration_error);
    valid += expected ? 1 : 0;
  });
  CHECK(valid > 500);
}

TEST_CASE("region: no text crashes the parser, and what it accepts round-trips") {
  const std::vector<std::string> tokens = {"x",
                                           "y",
                                           "=",
                                           "/",
                                           ",",
                                           "+",
                                           "1",
                                           "2",
                                           "8",
                                           "0",
                                           " ",
                                           "\"",
                                           "\\",
                                           "\\n",
                                           "\\u{",
                                           "}",
                                           "9223372036854775807",
                                           "@",
                                           "\xC3",
                                           "\xA9"};
  int accepted = 0;
  test::for_cases(5'000, [&](test::Random& random) {
    std::string text = random() % 2 == 0 ? test::any_region(random).to_string() : "";
    for (std::uint64_t n = random() % 12; n > 0; --n) {
      const std::string& token = tokens[random() % tokens.size()];
      if (text.empty() || random() % 2 == 0) {
        text += token;
      } else {
        text.replace(random() % text.size(), random() % 3, token);
      }
    }
    CAPTURE(text);
    const Result<Region> region = Region::parse(text);
    if (region) {
      ++accepted;
      REQUIRE(Region::parse(region->to_string()).value() == *region);
    } else {
      REQUIRE(region.error().code() == ErrorCode::parse_error);
      REQUIRE(text::is_utf8(region.error().detail()));
    }
  });
  CHECK(accepted > 100);
}

TEST_CASE("region: bad texts are refused with position, expected and found") {
  struct Row {
    std::string text;
    std::string_view detail;
  };
  const std::vector<Row> rows = {
      {"8", "region: at 1: expected '+', found the end"},
      {"8x=2/1", "region: at 1: expected '+', found 'x'"},
      {"+x=2/1", "region: at 0: expected a label (a letter, '_' or a quoted text), found '+'"},
      {"8+8+x=2/1", "region: at 2: expected a label"},
      {"x", "region: at 1: expected '=', found the end"},
      {"x=", "region: at 2: expected a size, found the end"},
      {"x=2", "region: at 3: expected '/', found the end"},
      {"x=2/", "region: at 4: expected a stride, found the end"},
      {"x=2/1,", "region: at 6: expected a label"},
      {"x=2/1,,y=2/2",
       "region: at 6: expected a label (a letter, '_' or a quoted text), found ','"},
      {"x=2/1 y=2/2", "region: at 6: expected ',' or the end, found 'y'"},
      {"x=2/1@", "region: at 5: expected ',' or the end, found '@'"},
      {"x=-2/1", "region: at 2: expected a size, found '-'"},
      {"x=0x2/1", "region: at 3: expected '/', found 'x'"},
      {"x=1e3/1", "region: at 3: expected '/', found 'e'"},
      {"dim/0=4/1", "region: at 3: expected '=', found '/'"},
      {"\xC3\xA9=4/1",
       "region: at 0: expected a label (a letter, '_' or a quoted text), found '\xC3\xA9'"},
      {"\"\"=1/1", "region: at 0: expected a label, found an empty one"},
      {"\"x", "region: at 2: expected '\"' to end the label that began at 0, found the end"},
      {"\"x\\", "region: at 3: expected one of \" \\ n r t u after '\\', found the end"},
      {"\"\\x\"=1/1", "region: at 2: expected one of \" \\ n r t u after '\\', found 'x'"},
      {"\"\\u41\"=1/1", "region: at 3: expected '{', found '4'"},
      {"\"\\u{}\"=1/1", "region: at 4: expected a hexadecimal digit, found '}'"},
      {"\"\\u{g}\"=1/1", "region: at 4: expected a hexadecimal digit, found 'g'"},
      {"\"\\u{0000041}\"=1/1",
       "region: at 10: expected '}' after at most 6 hexadecimal digits, found '1'"},
      {"\"\\u{110000}\"=1/1",
       "region: at 4: expected the number of a Unicode character, found 110000"},
      {"\"\\u{d800}\"=1/1", "region: at 4: expected the number of a Unicode character, found d800"},
      {"\"\\u{41\"=1/1", "region: at 6: expected '}', found '\"'"},
      {"\"\xFF\"=1/1", "region: at 1: expected UTF-8, found byte 0xff"},
      {"\"\xC0\x80\"=1/1", "region: at 1: expected UTF-8, found byte 0xc0"},
      {"\"\xED\xA0\x80\"=1/1", "region: at 1: expected UTF-8, found byte 0xed"},
      {"x=1/1,\"x\"=1/1", "region: at 6: label x occurs twice"},
      {"x=2/0", "region: at 0: StrideTooSmall: stride 0 of axis x"},
      {"x=2/1,y=2/1", "region: at 6: NonuniqueStrides: axes x and y have the same stride 1"},
      {"x=3/1,y=2/2", "region: at 6: StrideTooSmall: stride 2 of axis y: expected at least 3"},
      {"y=2/2,x=3/1", "region: at 0: StrideTooSmall: stride 2 of axis y: expected at least 3"},
      {"x=18446744073709551616/1",
       "region: at 2: expected a size of at most 18446744073709551615, found 18446744073709551616"},
      {"x=18446744073709551615/1", "region: at 0: Overflow"},
      {"x=2/18446744073709551615", "region: at 0: Overflow"},
      {"x=4294967296/4294967296", "region: at 0: Overflow"},
      {"9223372036854775807+",
       "region: at 0: expected an offset of at most 9223372036854775806, found "
       "9223372036854775807"},
      {"9223372036854775806+x=2/1", "region: at 20: Overflow"},
      {std::string("x\0=1/1", 6), "region: at 1: expected '=', found '\\u{0}'"},
      {"\x1B[2J",
       "region: at 0: expected a label (a letter, '_' or a quoted text), found '\\u{1b}'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Result<Region> region = Region::parse(row.text);
    REQUIRE_FALSE(region);
    CHECK(region.error().code() == ErrorCode::parse_error);
    CHECK(region.error().detail().substr(0, row.detail.size()) == row.detail);
  }
}

TEST_CASE("region: bad slices are refused with code and name") {
  const Region region = Extent::parse("x=4,y=2").value();
  const auto check = [](const Result<Region>& result, ErrorCode code, std::string_view detail) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == code);
    CHECK(result.error().detail() == detail);
  };
  check(region.range("z", 0), ErrorCode::configuration_error,
        "region: InvalidDim: no axis z: the axes are x, y");
  check(Region{}.at("z", 0), ErrorCode::configuration_error,
        "region: InvalidDim: no axis z: the region has no axes");
  check(region.range("x", 0, 4, 0), ErrorCode::configuration_error,
        "region: range 0..4 by 0 of axis x: expected a step of at least 1");
  check(region.range("x", 4), ErrorCode::out_of_range,
        "region: EmptyRange: range 4.. of axis x, which has size 4, has no index");
  check(region.range("x", 3, 2), ErrorCode::out_of_range,
        "region: EmptyRange: range 3..2 of axis x, which has size 4, has no index");
  check(region.at("y", 2), ErrorCode::out_of_range,
        "region: OutOfRangeIndex: expected an index below 2 of axis y, found 2");
  check(Region::make({"x", "y"}, 0, {1}, {1, 2}), ErrorCode::configuration_error,
        "region: InvalidDims: expected a size and a stride for each of 2 labels, found 1 and 2");
}

TEST_CASE("region: points and base ranks name each other, or the error says what is wrong") {
  const Region slice = Region(Extent::parse("x=4,y=4").value())
                           .range("y", 0, std::nullopt, 3)
                           .value();  // x=4/4,y=2/3
  CHECK(slice.base_rank(Point::parse("x=1/4,y=1/2").value()) == 7U);
  CHECK(slice.point(7).value().to_string() == "x=1/4,y=1/2");
  CHECK(Region::parse("8+").value().base_rank(Point{}) == 8U);
  CHECK(Region::parse("8+").value().point(8) == Point{});
  const auto check = [](const auto& result, ErrorCode code, std::string_view detail) {
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == code);
    CHECK(result.error().detail() == detail);
  };
  check(slice.point(6), ErrorCode::out_of_range,
        "region: OutOfRangeRank: expected a rank of \"x=4/4,y=2/3\", found 6");
  check(slice.base_rank(Point::parse("x=1/4,y=2/4").value()), ErrorCode::out_of_range,
        "region: OutOfRangeIndex: expected an index below 2 of axis y, found 2");
  check(slice.base_rank(Point::parse("y=1/4,x=1/2").value()), ErrorCode::configuration_error,
        "region: InvalidDim: expected a point whose axis 0 is x, found y");
  check(slice.base_rank(Point::parse("x=1/4").value()), ErrorCode::configuration_error,
        "region: InvalidDims: expected a point with the 2 axes of \"x=4/4,y=2/3\", found 1");
}

TEST_CASE("region: group_by gives a region per coordinate of the axes before a label") {
  const Region mesh = Extent::parse("replica=2,host=2,gpu=3").value();
  const auto groups = [](const Region& region, std::string_view label) {
    const RegionGroups found = region.group_by(label).value();
    std::vector<std::string> texts;
    for (const Region& group : found) texts.push_back(group.to_string());
    CHECK(texts.size() == found.size());
    return texts;
  };
  CHECK(groups(mesh, "replica") == std::vector<std::string>{"replica=2/6,host=2/3,gpu=3/1"});
  CHECK(groups(mesh, "host") == std::vector<std::string>{"host=2/3,gpu=3/1", "6+host=2/3,gpu=3/1"});
  CHECK(groups(mesh, "gpu") ==
        std::vector<std::string>{"gpu=3/1", "3+gpu=3/1", "6+gpu=3/1", "9+gpu=3/1"});
  CHECK(groups(mesh.range("host", 1).value(), "gpu") ==
        std::vector<std::string>{"3+gpu=3/1", "9+gpu=3/1"});
  CHECK(groups(Region::parse("x=0/1,y=2/1").value(), "y").empty());
  CHECK(groups(Region::parse("x=2/1,y=0/1").value(), "y") ==
        std::vector<std::string>{"y=0/1", "1+y=0/1"});
  CHECK(mesh.group_by("rack").error().code() == ErrorCode::configuration_error);
  CHECK(mesh.group_by("rack").error().detail() ==
        "region: InvalidDim: no axis rack: the axes are replica, host, gpu");
  // As many groups as there are, without a place for each.
  CHECK(Region::parse("x=4611686018427387903/2,y=2/1").value().group_by("y").value().size() ==
        (std::uint64_t{1} << 62) - 1);
  test::for_cases(5'000, [](test::Random& random) {
    const Region region = test::sliced(test::small_extent(random), random, 3);
    if (region.num_dims() == 0) return;
    CAPTURE(region);
    const std::size_t axis = random() % region.num_dims();
    const RegionGroups found = region.group_by(region.labels()[axis]).value();
    std::vector<std::uint64_t> ranks;
    for (const Region& group : found) {
      REQUIRE(group.labels() ==
              std::vector<std::string>(region.labels().begin() + static_cast<std::ptrdiff_t>(axis),
                                       region.labels().end()));
      REQUIRE(Region::make(group.labels(), group.offset(), group.sizes(), group.strides()) ==
              group);
      for (const std::uint64_t rank : group.ranks()) ranks.push_back(rank);
    }
    REQUIRE(ranks == ranks_of(region));
  });
}

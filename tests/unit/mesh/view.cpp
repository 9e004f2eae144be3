#include "meshbus/view.h"

#include <doctest/doctest.h>

#include <array>
#include <ranges>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "meshbus/format.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;
using test::for_cases;
using test::Random;

namespace {

/// Names for the ranks of a region: what a collection is at the least.
class Names {
 public:
  explicit Names(Region region) : region_(std::move(region)) {
    for (const std::uint64_t rank : region_.ranks())
      names_.push_back("rank " + std::to_string(rank));
  }
  const Region& region() const { return region_; }
  const std::string* get(std::uint64_t ordinal) const {
    return ordinal < names_.size() ? &names_[ordinal] : nullptr;
  }

 private:
  Region region_;
  std::vector<std::string> names_;
};

/// One that makes its items when asked.
class Squares {
 public:
  const Region& region() const { return region_; }
  std::optional<std::uint64_t> get(std::uint64_t ordinal) const {
    return ordinal < region_.num_ranks() ? std::optional(ordinal * ordinal) : std::nullopt;
  }

 private:
  Region region_ = Extent::parse("x=2,y=3").value();
};

static_assert(std::ranges::forward_range<RankRange>);
static_assert(std::ranges::forward_range<Points>);
static_assert(std::ranges::forward_range<RegionGroups>);
static_assert(std::ranges::forward_range<Remap>);
static_assert(std::ranges::forward_range<View<Names>>);
static_assert(Ranked<Names> && Ranked<Squares> && Ranked<View<Names>> && !Ranked<Region>);
static_assert(!std::is_constructible_v<View<Names>, Names>);  // it would be gone before the view

}  // namespace

TEST_CASE("view: iterates as points of its own extent and items, however it was sliced") {
  const Names names(Extent::parse("replica=2,host=3").value());
  const View all(names);
  std::string walked;
  for (const auto& [point, name] : all) walked += point.to_string() + ": " + name + "\n";
  CHECK(
      walked ==
      "replica=0/2,host=0/3: rank 0\nreplica=0/2,host=1/3: rank 1\nreplica=0/2,host=2/3: rank 2\n"
      "replica=1/2,host=0/3: rank 3\nreplica=1/2,host=1/3: rank 4\nreplica=1/2,host=2/3: rank 5\n");
  const View odd = all.range("host", 0, std::nullopt, 2).value().at("replica", 1).value();
  walked.clear();
  for (const auto& [point, name] : odd) walked += point.to_string() + ": " + name + "\n";
  CHECK(walked == "host=0/2: rank 3\nhost=1/2: rank 5\n");
  CHECK(odd.extent().to_argument() == "host=2");
  CHECK(odd.get(1) == names.get(5));  // the item itself, no copy
  CHECK(odd.get(2) == nullptr);
  // A view of a view is a view of what the other shows.
  const View again(odd);
  CHECK(again.get(0) == names.get(3));
  CHECK(odd.sliced(Region::parse("r=2/2").value()).error().code() == ErrorCode::out_of_range);
  CHECK(*odd.sliced(Region::parse("3+r=2/2").value()).value().get(1) == "rank 5");
  CHECK(odd.sliced(Region::parse("4+r=1/1").value()).error().detail() ==
        "view: expected a region of ranks of \"3+host=2/2\", found \"4+r=1/1\", which has others");
  CHECK(odd.range("gpu", 0).error().detail().find("InvalidDim") != std::string::npos);
  CHECK(all.at("host", 3).error().code() == ErrorCode::out_of_range);
}

TEST_CASE("view: items may be made when asked for, and walked with the standard's views") {
  const Squares squares;
  const View all(squares);
  std::vector<std::uint64_t> seen;
  for (const auto& [point, square] : all | std::views::drop(1) | std::views::take(3))
    seen.push_back(square + 100 * point.rank());
  CHECK(seen == std::vector<std::uint64_t>{101, 204, 309});
  CHECK(all.at("x", 1).value().get(2) == 25U);
  CHECK_FALSE(all.at("x", 1).value().get(3).has_value());
}

TEST_CASE("view: any slice shows what a look-up by base rank shows") {
  for_cases(2'000, [](Random& random) {
    const Names names(test::small_region(random));
    const Region region = test::shuffled(test::sliced(names.region(), random, 4), random);
    CAPTURE(names.region());
    CAPTURE(region);
    const View view = View(names).sliced(region).value();
    REQUIRE(view.num_ranks() == region.num_ranks());
    const RankRange ranks = region.ranks();
    auto rank = ranks.begin();
    for (const auto& [point, name] : view) {
      REQUIRE(region.base_rank(point) == *rank);
      REQUIRE(region.point(*rank) == point);
      REQUIRE(name == "rank " + std::to_string(*rank));
      ++rank;
    }
    REQUIRE(rank == ranks.end());
    REQUIRE(view.get(region.num_ranks()) == nullptr);
  });
}

TEST_CASE("points and ranks: range-for gives all of them in order") {
  const Extent extent = Extent::parse("x=2,y=2").value();
  std::string points;
  for (const Point& point : extent.points()) points += point.to_string() + " ";
  CHECK(points == "x=0/2,y=0/2 x=0/2,y=1/2 x=1/2,y=0/2 x=1/2,y=1/2 ");
  const Region column = Region(extent).at("y", 1).value();
  std::vector<std::uint64_t> ranks;
  for (const std::uint64_t rank : column.ranks()) ranks.push_back(rank);
  CHECK(ranks == std::vector<std::uint64_t>{1, 3});
  CHECK(std::ranges::distance(Extent{}.points()) == 1);
  CHECK(Extent::parse("x=3,y=0").value().points().size() == 0);
  for (const Point& point : Extent::parse("x=3,y=0").value().points()) FAIL(point.to_string());
}

TEST_CASE("mesh values: printed the same by streams and by fmt, and usable as keys") {
  const Region region = Region::parse("8+x=2/1,\"dim/0\"=3/2").value();
  const Point point = Point::parse("x=1/4,y=2/5").value();
  std::ostringstream out;
  out << region << " " << region.extent() << " " << point << " " << Extent{};
  CHECK(out.str() == "8+x=2/1,\"dim/0\"=3/2 {x: 2, \"dim/0\": 3} x=1/4,y=2/5 {}");
  CHECK(fmt::format("{} {} {} {}", region, region.extent(), point, Extent{}) == out.str());
  CHECK(fmt::format("[{:>14}] [{:.3}]", point, region) == "[   x=1/4,y=2/5] [8+x]");
  CHECK(fmt::format("{}", region.at("z", 0).error())
            .starts_with("configuration_error: region: InvalidDim: no axis z"));
  CHECK(fmt::format("{}", ErrorCode::not_exist) == "not_exist");
  std::unordered_set<Region> regions = {region, Region::parse(region.to_string()).value(),
                                        Region::parse("x=2/1").value()};
  CHECK(regions.size() == 2);
  std::unordered_set<Extent> extents = {region.extent(), Extent::parse("x=2").value(),
                                        Extent::parse("x=2").value()};
  CHECK(extents.size() == 2);
  std::unordered_set<Point> points;
  for (const Point& each : region.extent().points()) points.insert(each);
  CHECK(points.size() == 6);
}

TEST_CASE("mesh values: the order of points is that of ranks, and every order is total") {
  for_cases(2'000, [](Random& random) {
    const Region a = test::small_region(random);
    const Region b = random() % 4 == 0 ? a : test::small_region(random);
    REQUIRE(((a == b) == ((a <=> b) == 0)));
    REQUIRE(((a < b) == (b > a)));
    REQUIRE((a.extent() == b.extent()) == ((a.extent() <=> b.extent()) == 0));
    if (a == b) REQUIRE(std::hash<Region>{}(a) == std::hash<Region>{}(b));
    if (a.num_ranks() < 2) return;
    const std::uint64_t rank = random() % (a.num_ranks() - 1);
    REQUIRE(a.points()[rank] < a.points()[rank + 1]);
  });
}

#include "mesh/subset.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

#include "tests/unit/mesh/random.h"

using namespace meshbus;
using test::for_cases;
using test::Random;

namespace {

std::vector<std::uint64_t> base_ranks_of(const Region& region) {
  const RankRange ranks = region.ranks();
  return {ranks.begin(), ranks.end()};
}

std::set<std::uint64_t> set_of(const Region& region) {
  const RankRange ranks = region.ranks();
  return {ranks.begin(), ranks.end()};
}

bool includes(const std::set<std::uint64_t>& all, const std::set<std::uint64_t>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

/// A region of ranks of `all` whose axes need not be those of `of`: any steps that stay inside, one
/// axis after the other.
Region woven_into(const std::set<std::uint64_t>& all, const Region& of, Random& random) {
  std::uint64_t offset = of.base_rank(random() % of.num_ranks()).value();
  std::vector<std::uint64_t> ranks = {offset};
  std::vector<std::string> labels;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> strides;
  for (int axis = 0; axis < 3; ++axis) {
    const std::uint64_t stride = ranks.back() - offset + 1 + random() % 20;
    std::vector<std::uint64_t> next = ranks;
    std::uint64_t size = 1;
    for (const std::uint64_t most = 1 + random() % 8; size < most; ++size) {
      bool is_inside = true;
      for (const std::uint64_t rank : ranks)
        is_inside = is_inside && all.contains(rank + size * stride);
      if (!is_inside) break;
      for (const std::uint64_t rank : ranks) next.push_back(rank + size * stride);
    }
    ranks = std::move(next);
    labels.push_back(std::string(1, static_cast<char>('p' + axis)));
    sizes.push_back(size);
    strides.push_back(stride);
  }
  return test::shuffled(Region::make(labels, offset, sizes, strides).value(), random);
}

Region stretched(const Region& region, std::uint64_t factor, std::uint64_t offset) {
  std::vector<std::uint64_t> strides = region.strides();
  for (std::uint64_t& stride : strides) stride *= factor;
  return Region::make(region.labels(), region.offset() * factor + offset, region.sizes(), strides)
      .value();
}

}  // namespace

TEST_CASE("subset: ranks alone count, not labels, axes or their order") {
  const auto subset = [](std::string_view a, std::string_view b) {
    return is_subset(Region::parse(a).value(), Region::parse(b).value());
  };
  CHECK(subset("x=4/4,y=4/1", "r=16/1"));
  CHECK(subset("r=16/1", "y=4/1,x=4/4"));
  CHECK(subset("2+r=3/4", "x=4/4,y=3/1"));
  CHECK_FALSE(subset("r=2/3", "x=4/4,y=3/1"));
  CHECK(subset("", "x=2/1"));
  CHECK_FALSE(subset("5+", "x=2/1"));
  CHECK(subset("9+x=0/1", "x=0/1"));
  CHECK(subset("9+x=0/1", "x=1/1"));
  CHECK_FALSE(subset("", "x=0/1"));
  // Along a diagonal, back through it, and every other rank over the gaps of the other.
  CHECK(subset("d=3/11", "x=5/10,y=3/1"));
  CHECK(subset("2+d=3/9", "x=5/10,y=3/1"));
  CHECK_FALSE(subset("2+d=4/9", "x=5/10,y=3/1"));
  CHECK(subset("e=6/2", "x=3/4,y=3/1"));
  CHECK_FALSE(subset("1+e=6/2", "x=3/4,y=3/1"));
}

TEST_CASE("subset: equals inclusion of sets, and costs nothing for slices") {
  std::uint64_t subsets = 0;
  std::uint64_t split = 0;
  std::uint64_t cases = 0;
  for_cases(5'000, [&](Random& random) {
    const Region b = test::small_region(random);
    const std::set<std::uint64_t> in_b = set_of(b);
    const bool is_slice = random() % 4 == 0;
    const bool is_woven = !is_slice && !in_b.empty() && random() % 3 != 0;
    const Region a = is_slice   ? test::shuffled(test::sliced(b, random, 4), random)
                     : is_woven ? woven_into(in_b, b, random)
                                : test::small_region(random);
    CAPTURE(a);
    CAPTURE(b);
    const std::set<std::uint64_t> in_a = set_of(a);
    subset::Cost cost;
    const bool expected = includes(in_b, in_a);
    REQUIRE(subset::is_subset(a, b, cost) == expected);
    REQUIRE(cost.pieces <= 2 * a.num_ranks());
    if (is_slice) REQUIRE((expected && cost.pieces == 0));
    ++cases;
    subsets += expected ? 1 : 0;
    split += expected && cost.pieces > 0 ? 1 : 0;
    REQUIRE(is_subset(b, a) == includes(in_a, in_b));
    // The same far out, where numbers are large.
    const std::uint64_t factor = 1 + random() % (std::uint64_t{1} << 52);
    const std::uint64_t offset = random() % (std::uint64_t{1} << 60);
    REQUIRE(is_subset(stretched(a, factor, offset), stretched(b, factor, offset)) == expected);
  });
  // Among enough cases some are hard.
  CHECK((cases < 1'000 || (subsets > 100 && split > 10)));
}

TEST_CASE("subset: huge regions and their slices are decided without walking") {
  for_cases(5'000, [&](Random& random) {
    const Region b = test::any_region(random);
    const Region a = test::shuffled(test::sliced(b, random, 4), random);
    CAPTURE(a);
    CAPTURE(b);
    subset::Cost cost;
    REQUIRE(subset::is_subset(a, b, cost));
    REQUIRE(cost.pieces == 0);
    REQUIRE(is_subset(b, a) == (a.num_ranks() == b.num_ranks()));
    if (a.is_empty()) return;
    const std::uint64_t last = b.base_rank(b.num_ranks() - 1).value();
    const Region all = Region::make({"r"}, b.offset(), {last - b.offset() + 1}, {1}).value();
    REQUIRE(subset::is_subset(a, all, cost));
    REQUIRE(cost.pieces == 0);
    REQUIRE(is_subset(all, b) == (all.num_ranks() == b.num_ranks()));
  });
}

TEST_CASE("subset: steps that fit nowhere are found out soon, however many ranks there are") {
  struct Row {
    std::string_view a;
    std::string_view b;
    bool expected;
  };
  for (const Row& row : std::vector<Row>{
           {"r=1099511627776/3", "x=1048576/1099511627777,y=1099511627776/1",
            false},  // meets the gap once per lap
           {"r=366503875925/3", "x=1048576/1099511627777,y=1099511627776/1", true},
           {"r=1048576/1099511627778", "x=1048576/1099511627779,y=1099511627770/1", false},
           {"1048576+r=1048576/1099511627776", "x=1048576/1099511627777,y=1099511627776/1",
            true},  // one back on each lap
           {"r=1048576/2,q=1048576/4398046511105", "x=2097152/2199023255553,y=2199023255551/1",
            false},
           {"1048576+r=1048576/2,q=1048576/4398046511105",
            "x=2097152/2199023255553,y=2199023255551/1", true},
           {"r=4194304/2199023255552", "x=4194304/2199023255552,y=3/4,z=3/1", true},
           {"r=1152921504606846976/2", "x=1537228672809129301/4,y=3/1", true},
           {"1+r=1152921504606846976/2", "x=1537228672809129301/4,y=3/1", false},
       }) {
    CAPTURE(row.a);
    CAPTURE(row.b);
    subset::Cost cost;
    CHECK(subset::is_subset(Region::parse(row.a).value(), Region::parse(row.b).value(), cost) ==
          row.expected);
    CHECK(cost.pieces < 100);
  }
}

TEST_CASE("remap: gives each rank of the target its ordinal, or nothing when one is missing") {
  const Region mesh = Extent::parse("x=4,y=4").value();
  const Remap column = remap(mesh, mesh.at("y", 1).value()).value();
  CHECK(std::vector<std::uint64_t>(column.begin(), column.end()) ==
        std::vector<std::uint64_t>{1, 5, 9, 13});
  CHECK_FALSE(remap(mesh.at("y", 1).value(), mesh).has_value());
  CHECK(remap(mesh, Region::parse("7+x=0/1").value()).value().size() == 0);
  for_cases(5'000, [&](Random& random) {
    const Region self = test::small_region(random);
    const std::set<std::uint64_t> in_self = set_of(self);
    const Region target = in_self.empty() || random() % 4 == 0 ? test::small_region(random)
                          : random() % 2 == 0
                              ? woven_into(in_self, self, random)
                              : test::shuffled(test::sliced(self, random, 3), random);
    CAPTURE(self);
    CAPTURE(target);
    std::map<std::uint64_t, std::uint64_t> ordinals;
    for (const std::uint64_t rank : self.ranks()) ordinals.emplace(rank, ordinals.size());
    const std::optional<Remap> found = remap(self, target);
    REQUIRE(found.has_value() == includes(in_self, set_of(target)));
    if (!found) return;
    REQUIRE(found->size() == target.num_ranks());
    std::vector<std::uint64_t> expected;
    for (const std::uint64_t rank : base_ranks_of(target)) expected.push_back(ordinals.at(rank));
    REQUIRE(std::vector<std::uint64_t>(found->begin(), found->end()) == expected);
  });
}

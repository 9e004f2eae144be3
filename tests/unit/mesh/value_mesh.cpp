#include "meshbus/value_mesh.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "meshbus/status_mesh.h"
#include "tests/unit/mesh/property.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;
using test::for_cases;
using test::Random;

namespace {

/// A value of which there are more than 256, so that ids grow wide, and that must be interned.
struct Word {
  static constexpr bool is_interned = true;
  int number = 0;
  friend auto operator<=>(const Word&, const Word&) = default;
};

/// Counts how often values are compared: what an algorithm costs, without a clock.
struct Counted {
  int number = 0;
  static inline std::uint64_t comparisons_ = 0;
  friend bool operator==(const Counted& a, const Counted& b) {
    ++comparisons_;
    return a.number == b.number;
  }
};

template <typename T>
T make(std::uint64_t number);
template <>
int make<int>(std::uint64_t number) {
  return static_cast<int>(number);
}
template <>
bool make<bool>(std::uint64_t number) {
  return number % 2 == 0;
}
template <>
Word make<Word>(std::uint64_t number) {
  return {static_cast<int>(number)};
}

template <typename T>
std::vector<T> values_of(const ValueMesh<T>& mesh) {
  std::vector<T> values;
  for (std::uint64_t rank = 0; rank < mesh.num_ranks(); ++rank) values.push_back(*mesh.get(rank));
  return values;
}

/// Runs as they should be, of a plain list.
template <typename T>
std::vector<RankRun<T>> runs_of(const std::vector<T>& values) {
  std::vector<RankRun<T>> runs;
  for (std::uint64_t rank = 0; rank < values.size(); ++rank)
    append_run(runs, rank, rank + 1, T(values[rank]));
  return runs;
}

template <typename T>
void check_equal(const ValueMesh<T>& mesh, const std::vector<T>& model) {
  REQUIRE(values_of(mesh) == model);
  REQUIRE(mesh.overlay().runs() == runs_of(model));
  REQUIRE(mesh.num_runs() == runs_of(model).size());
  REQUIRE(mesh.get(model.size()) == nullptr);
}

template <typename T>
void either_way(std::uint64_t max_ranks, std::uint64_t different, std::uint64_t cases,
                std::uint64_t weight = 1) {
  for_cases(
      cases,
      [&](Random& random) {
        // A region out of a root, with steps, so that ordinals are not base ranks.
        const std::uint64_t rows = 1 + random() % 4;
        const std::uint64_t columns = 1 + random() % (max_ranks / rows);
        Region region = Extent::make({{"row", rows}, {"column", columns}}).value();
        if (random() % 2 == 0)
          region =
              region.range("column", random() % columns, std::nullopt, 1 + random() % 2).value();
        std::vector<T> model;
        while (model.size() < region.num_ranks())
          model.insert(model.end(),
                       std::min<std::uint64_t>(1 + random() % 5, region.num_ranks() - model.size()),
                       make<T>(random() % different));
        auto dense = ValueMesh<T>::make(region, model).value();
        auto runs = ValueMesh<T>::make(region, Overlay<T>::of(runs_of(model))).value();
        dense.expand();
        runs.compress();
        REQUIRE(dense.is_dense());
        REQUIRE_FALSE(runs.is_dense());
        REQUIRE(dense == runs);
        check_equal(dense, model);
        check_equal(runs, model);

        // A copy with one value changed differs.
        auto other = random() % 2 == 0 ? dense : runs;
        const std::uint64_t at = random() % model.size();
        REQUIRE(other
                    .set(at, make<T>(different +
                                     static_cast<std::uint64_t>(model[at] == make<T>(different))))
                    .has_value());
        REQUIRE_FALSE(other == dense);
        REQUIRE_FALSE(runs == other);

        // Merging and setting.
        for (int n = 0; n < 3; ++n) {
          std::vector<RankRun<T>> updates;
          for (std::uint64_t k = random() % 4; k > 0; --k) {
            const std::uint64_t begin = random() % model.size();
            const std::uint64_t end =
                begin + 1 + random() % (random() % 2 == 0 ? 1 : model.size() - begin);
            updates.push_back({begin, end, make<T>(random() % different)});
            std::fill(model.begin() + static_cast<std::ptrdiff_t>(begin),
                      model.begin() + static_cast<std::ptrdiff_t>(end), updates.back().value);
          }
          const auto overlay = Overlay<T>::of(updates);
          REQUIRE(dense.merge(overlay).has_value());
          for (const auto& run : updates)
            REQUIRE(runs.set(run.begin, run.end, run.value).has_value());
          check_equal(dense, model);
          check_equal(runs, model);
          REQUIRE(dense == runs);
          dense.expand();
          runs.compress();
        }
        const auto is_zero = [](const T& value) { return value == make<T>(0); };
        REQUIRE(dense.count_if(is_zero) ==
                static_cast<std::uint64_t>(std::count_if(model.begin(), model.end(), is_zero)));

        // A slice, by the model of base ranks.
        Region part = region;
        if (random() % 2 == 0)
          part = part.range("column", random() % part.sizes()[1], std::nullopt, 1 + random() % 3)
                     .value();
        if (random() % 2 == 0) part = part.at("row", random() % rows).value();
        std::vector<T> expected;
        for (const std::uint64_t rank : part.ranks())
          expected.push_back(model[*region.ordinal_of(rank)]);
        const auto dense_slice = dense.sliced(part).value();
        check_equal(dense_slice, expected);
        REQUIRE(dense_slice == runs.sliced(part).value());

        // Mapped to something with fewer values.
        const auto is_odd = [](const T& value) {
          return value == make<T>(1) || value == make<T>(3);
        };
        std::vector<bool> odd;
        for (const T& value : model) odd.push_back(is_odd(value));
        const auto mapped = dense.map(is_odd);
        check_equal(mapped, odd);
        REQUIRE(mapped == runs.map(is_odd));
      },
      weight);
}

}  // namespace

TEST_CASE("value_mesh: dense equals compressed under get, merge, slice and map") {
  either_way<int>(40, 4, 500);
  either_way<Word>(40, 4, 500);
}

TEST_CASE("value_mesh: values that vectors treat differently, and more than a byte can number") {
  either_way<bool>(40, 2, 200);
  either_way<Word>(2000, 600, 5, 100);
}

TEST_CASE("value_mesh: many single updates turn it dense and back, and it stays right") {
  for_cases(
      2,
      [](Random& random) {
        const std::uint64_t ranks = 3000 + random() % 3000;
        StatusMesh mesh(Extent::make({{"x", ranks}}).value(), Status::Kind::not_exist);
        CHECK_FALSE(mesh.is_dense());
        std::vector<std::uint64_t> order(ranks);
        for (std::uint64_t i = 0; i < ranks; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        std::vector<Status> model(ranks, Status::Kind::not_exist);
        bool was_dense = false;
        for (std::uint64_t i = 0; i < ranks; ++i) {
          model[order[i]] = Status::Kind::running;
          REQUIRE(mesh.set(order[i], Status::Kind::running).has_value());
          was_dense = was_dense || mesh.is_dense();
          REQUIRE(count_missing(mesh, Status::Kind::running) == ranks - i - 1);
          if (random() % 500 == 0) check_equal(mesh, model);
        }
        CHECK(was_dense);
        CHECK_FALSE(mesh.is_dense());
        CHECK(mesh.num_runs() == 1);
        CHECK(mesh == StatusMesh(mesh.region(), Status::Kind::running));
      },
      10'000);
}

TEST_CASE("value_mesh: an array costs a run what the run is long, not what lies behind it") {
  constexpr std::uint64_t ranks = 20'000;
  ValueMesh<Counted> mesh(Extent::make({{"x", ranks}}).value(), Counted{0});
  mesh.expand();
  Counted::comparisons_ = 0;
  for (std::uint64_t rank = 0; rank < ranks; rank += 4)
    REQUIRE(mesh.set(rank, rank + 2, Counted{1}).has_value());
  CHECK(Counted::comparisons_ < 20 * ranks);
  CHECK(mesh.num_runs() == ranks / 2);
}

TEST_CASE("value_mesh: interned values that are gone are forgotten, and their ids used again") {
  ValueMesh<Word> mesh(Extent::make({{"x", 3}}).value(), Word{-1});
  for (int i = 0; i < 100'000; ++i)
    REQUIRE(mesh.set(static_cast<std::uint64_t>(i % 3), Word{i}).has_value());
  CHECK(values_of(mesh) == std::vector<Word>{{99'999}, {99'997}, {99'998}});
  // A value that lives in the mesh may be given to it.
  REQUIRE(mesh.set(0, 2, *mesh.get(2)).has_value());
  REQUIRE(mesh.set(2, 3, *mesh.get(0)).has_value());
  CHECK(mesh.num_runs() == 1);
  ValueMesh<std::string> strings(Extent::make({{"x", 500}}).value(),
                                 "a long text that is not kept inside the string itself");
  REQUIRE(strings.set(3, "another text that is not kept inside the string itself").has_value());
  REQUIRE(strings.set(0, 500, *strings.get(3)).has_value());
  CHECK(strings.num_runs() == 1);
  CHECK(*strings.get(499) == "another text that is not kept inside the string itself");
}

TEST_CASE("value_mesh: a wrong count is invalid_rank_cardinality, a wrong rank out_of_range") {
  const Region region = Extent::make({{"x", 4}}).value();
  const auto few = ValueMesh<int>::make(region, {1, 2, 3});
  REQUIRE_FALSE(few.has_value());
  CHECK(few.error().to_string() ==
        "invalid_rank_cardinality: value mesh: expected 4 values, found 3");
  CHECK(ValueMesh<int>::make(region, {1, 2, 3, 4, 5}).error().code() ==
        ErrorCode::invalid_rank_cardinality);
  const auto gap = ValueMesh<int>::make(region, Overlay<int>::of({{0, 1, 7}, {2, 4, 7}}));
  CHECK(gap.error().to_string() ==
        "invalid_rank_cardinality: value mesh: expected a value for each of 4 ranks, found 3");
  const auto beyond = ValueMesh<int>::make(region, Overlay<int>::of({{0, 6, 7}}));
  CHECK(beyond.error().to_string() == "out_of_range: value mesh: expected ranks below 4, found 5");
  CHECK(ValueMesh<int>::make_indexed(region, {{0, 1}, {1, 1}, {2, 1}}).error().code() ==
        ErrorCode::invalid_rank_cardinality);
  CHECK(ValueMesh<int>::make_indexed(region, {{0, 1}, {1, 1}, {2, 1}, {4, 1}}).error().code() ==
        ErrorCode::out_of_range);
  ValueMesh<int> mesh(region, 1);
  CHECK(mesh.set(4, 2).error().code() == ErrorCode::out_of_range);
  CHECK(mesh.set(0, 5, 2).error().code() == ErrorCode::out_of_range);
  CHECK(mesh.merge(Overlay<int>::of({{0, 1, 2}, {3, 5, 2}})).error().code() ==
        ErrorCode::out_of_range);
  CHECK(mesh.set(3, 3, 2).has_value());
  CHECK(mesh == ValueMesh<int>(region, 1));
  CHECK(mesh.sliced(Extent::make({{"x", 5}}).value()).error().to_string() ==
        "out_of_range: value mesh: rank 4 of slice x=5/1 is not in x=4/1");
  CHECK(mesh.at("y", 0).error().code() == ErrorCode::configuration_error);
  CHECK(mesh.range("x", 4).error().code() == ErrorCode::out_of_range);
}

TEST_CASE("value_mesh: of several values for one rank the last one counts") {
  const Region region = Extent::make({{"x", 3}}).value();
  const auto mesh =
      ValueMesh<int>::make_indexed(region, {{2, 1}, {0, 1}, {1, 5}, {2, 9}, {1, 6}, {2, 3}})
          .value();
  CHECK(values_of(mesh) == std::vector<int>{1, 6, 3});
}

TEST_CASE("value_mesh: no ranks, one rank, and more ranks than memory") {
  const Region none = Extent::make({{"x", 0}}).value();
  auto empty = ValueMesh<int>::make(none, std::vector<int>{}).value();
  CHECK(empty == ValueMesh<int>(none, 7));
  CHECK(empty.num_runs() == 0);
  CHECK(empty.overlay().is_empty());
  CHECK(empty.set(0, 1).error().code() == ErrorCode::out_of_range);
  empty.expand();
  empty.compress();
  CHECK(empty.map([](int value) { return value; }) == empty);
  CHECK(empty.sliced(none).value() == empty);
  const ValueMesh<int> one(Region(), 3);
  CHECK(*one.get(0) == 3);
  CHECK(one.get(1) == nullptr);

  constexpr std::uint64_t huge = (std::uint64_t{1} << 62) + 5;
  StatusMesh mesh(Extent::make({{"x", huge}}).value(), Status::Kind::running);
  REQUIRE(mesh.set(huge - 1, Status::failed("exit 3")).has_value());
  REQUIRE(mesh.set(7, Status::failed("exit 3")).has_value());
  CHECK(mesh.num_runs() == 4);
  CHECK(count_missing(mesh, Status::Kind::stopped) == huge - 2);
  CHECK(to_string(mesh) ==
        "Running=0..7,8..4611686018427387908;Failed(\"exit "
        "3\")=7..8,4611686018427387908..4611686018427387909");
}

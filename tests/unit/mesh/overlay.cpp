#include "meshbus/overlay.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/unit/mesh/property.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;
using test::for_cases;
using test::Random;

namespace {

using Numbers = Overlay<int>;
using Map = std::map<std::uint64_t, int>;

std::vector<Numbers::Run> any_runs(Random& random, std::uint64_t ranks) {
  std::vector<Numbers::Run> runs;
  for (std::uint64_t n = random() % 9; n > 0; --n) {
    const std::uint64_t begin = random() % ranks;
    runs.push_back({begin, begin + random() % (random() % 2 == 0 ? 3 : ranks - begin + 1),
                    static_cast<int>(random() % 3)});
  }
  return runs;
}

void write(Map& map, const std::vector<Numbers::Run>& runs) {
  for (const Numbers::Run& run : runs) {
    for (std::uint64_t rank = run.begin; rank < run.end; ++rank) map[rank] = run.value;
  }
}

Map map_of(const Numbers& overlay) {
  Map map;
  write(map, overlay.runs());
  return map;
}

bool is_canonical(const Numbers& overlay) {
  const auto& runs = overlay.runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].begin >= runs[i].end) return false;
    if (i == 0) continue;
    if (runs[i].begin < runs[i - 1].end) return false;
    if (runs[i].begin == runs[i - 1].end && runs[i].value == runs[i - 1].value) return false;
  }
  return true;
}

std::string problem(std::string_view text) {
  const auto overlay = parse_overlay(text);
  if (overlay) return "none";
  CHECK(overlay.error().code() == ErrorCode::parse_error);
  return overlay.error().detail();
}

}  // namespace

TEST_CASE("overlay: the right one wins, equal neighbours are joined") {
  const auto merged = [](std::string_view left, std::string_view right) {
    return to_string(merge(parse_overlay(left).value(), parse_overlay(right).value()));
  };
  CHECK(merged("0..5=A,5..10=B", "3..7=C") == "0..3=A,3..7=C,7..10=B");
  CHECK(merged("0..10=A", "3..7=A") == "0..10=A");
  CHECK(merged("0..10=A", "3..7=B") == "0..3=A,3..7=B,7..10=A");
  CHECK(merged("3..7=B", "0..10=A") == "0..10=A");
  CHECK(merged("0..3=A,7..10=A", "3..7=A") == "0..10=A");
  CHECK(merged("", "3..7=A") == "3..7=A");
  CHECK(merged("3..7=A", "") == "3..7=A");
  CHECK(merged("", "").empty());
  CHECK(merged("0..2=A,4..6=A,8..10=A", "1..5=B,9..12=C") == "0..1=A,1..5=B,5..6=A,8..9=A,9..12=C");
  CHECK(merged("0..18446744073709551615=A", "18446744073709551614..18446744073709551615=B") ==
        "0..18446744073709551614=A,18446744073709551614..18446744073709551615=B");
  Numbers self = Numbers::of({{0, 4, 1}, {6, 8, 2}});
  self.merge(self);
  CHECK(self == Numbers::of({{0, 4, 1}, {6, 8, 2}}));
}

TEST_CASE("overlay: merging, setting and building equal a plain map, for every input") {
  for_cases(4000, [](Random& random) {
    const std::uint64_t ranks = 1 + random() % 24;
    const auto left_runs = any_runs(random, ranks);
    const auto right_runs = any_runs(random, ranks);
    const Numbers left = Numbers::of(left_runs);
    const Numbers right = Numbers::of(right_runs);
    Map model;
    write(model, left_runs);
    REQUIRE(map_of(left) == model);
    REQUIRE(is_canonical(left));
    Numbers set = left;
    for (const auto& run : right_runs) {
      set.set(run.begin, run.end, run.value);
      REQUIRE(is_canonical(set));
    }
    write(model, right_runs);
    const Numbers merged = merge(left, right);
    REQUIRE(is_canonical(merged));
    REQUIRE(map_of(merged) == model);
    REQUIRE(set == merged);
    REQUIRE(merged.num_ranks() == model.size());
    for (std::uint64_t rank = 0; rank <= ranks + 1; ++rank) {
      const int* found = merged.find(rank);
      const auto expected = model.find(rank);
      REQUIRE((found != nullptr) == (expected != model.end()));
      if (found != nullptr) REQUIRE(*found == expected->second);
    }
    Map halved;
    for (const auto& [rank, value] : model) halved[rank] = value / 2;
    const Numbers mapped = merged.map([](int value) { return value / 2; });
    REQUIRE(map_of(mapped) == halved);
    REQUIRE(is_canonical(mapped));
  });
}

TEST_CASE("overlay: what is reduced in any grouping gives the same, as long as the order stays") {
  for_cases(4000, [](Random& random) {
    std::vector<Numbers> parts;
    Map model;
    for (std::uint64_t n = 1 + random() % 6; n > 0; --n) {
      const auto runs = any_runs(random, 16);
      parts.push_back(Numbers::of(runs));
      write(model, runs);
    }
    // As hosts would on the way: any two neighbours, until one is left.
    while (parts.size() > 1) {
      const std::size_t i = random() % (parts.size() - 1);
      parts[i].merge(parts[i + 1]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    REQUIRE(map_of(parts.front()) == model);
    REQUIRE(is_canonical(parts.front()));
  });
}

TEST_CASE("overlay: what prints parses to the same") {
  for_cases(4000, [](Random& random) {
    std::vector<TextOverlay::Run> runs;
    std::uint64_t at = 0;
    for (std::uint64_t n = random() % 6; n > 0; --n) {
      const std::uint64_t begin = at + (random() % 2 == 0 ? 0 : (random() >> 4) % 1000);
      at = begin + 1 + (random() % 4 == 0 ? random() >> 8 : random() % 5);
      runs.push_back({begin, at, random() % 8 == 0 ? "" : test::any_label(random)});
    }
    const TextOverlay overlay = TextOverlay::of(runs);
    const std::string text = to_string(overlay);
    CAPTURE(text);
    const auto parsed = parse_overlay(text);
    REQUIRE(parsed.has_value());
    REQUIRE(*parsed == overlay);
  });
}

TEST_CASE("overlay: text in any order, with spaces, bare words and quoted texts") {
  CHECK(to_string(parse_overlay(" 5 .. 10 = B , 0..5 = \"A\" ").value()) == "0..5=A,5..10=B");
  CHECK(to_string(parse_overlay("0..1=v1.2-rc_3,1..2=7,2..3=\"\",3..4=\"a b\"").value()) ==
        "0..1=v1.2-rc_3,1..2=7,2..3=\"\",3..4=\"a b\"");
  CHECK(to_string(parse_overlay("0..5=A,5..9=A").value()) == "0..9=A");
  CHECK(parse_overlay("").value().is_empty());
  CHECK(parse_overlay("  ").value().is_empty());
  CHECK(to_string(TextOverlay::of({{0, 1, "\xFF"}})) == "0..1=\"\xEF\xBF\xBD\"");
}

TEST_CASE("overlay: a bad text says where") {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {",", "overlay: at 0: expected ranks (0..5), found ','"},
      {"A", "overlay: at 0: expected ranks (0..5), found 'A'"},
      {"0", "overlay: at 1: expected '..', found the end"},
      {"0-5=A", "overlay: at 1: expected '..', found '-'"},
      {"0..", "overlay: at 3: expected the rank after the last one, found the end"},
      {"0..5", "overlay: at 4: expected '=', found the end"},
      {"0..5=",
       "overlay: at 5: expected a value (letters, digits, '_', '-', '.', or a quoted text), found "
       "the end"},
      {"0..5==A",
       "overlay: at 5: expected a value (letters, digits, '_', '-', '.', or a quoted text), found "
       "'='"},
      {"0..5=A B", "overlay: at 7: expected ',' or the end, found 'B'"},
      {"0..5=A,", "overlay: at 7: expected ranks (0..5), found the end"},
      {"0..5=A,,5..6=B", "overlay: at 7: expected ranks (0..5), found ','"},
      {"5..5=A", "overlay: at 0: expected ranks, found none in 5..5"},
      {"0..2=A, 9..3=A", "overlay: at 8: expected ranks, found none in 9..3"},
      {"0..5=A,4..6=B", "overlay: at 7: rank 4 occurs twice"},
      {"4..6=B,0..5=A", "overlay: at 7: rank 4 occurs twice"},
      {"0..5=A,8..9=A,0..5=A", "overlay: at 14: rank 0 occurs twice"},
      {"0..5=\"A", "overlay: at 7: expected '\"' to end the label that began at 5, found the end"},
      {"0..5=\xFF",
       "overlay: at 5: expected a value (letters, digits, '_', '-', '.', or a quoted text), found "
       "byte 0xff"},
      {"-1..5=A", "overlay: at 0: expected ranks (0..5), found '-'"},
      {"0..18446744073709551616=A",
       "overlay: at 3: expected the rank after the last one of at most 18446744073709551615, found "
       "18446744073709551616"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK(problem(text) == expected);
  }
}

// Rows of meshbus top: order, filter, folding and sums.
#include "cli/top/site_tree.h"

#include <doctest/doctest.h>

#include "cli/top/row_text.h"
#include "tests/unit/cli/top/sites.h"

using namespace meshbus;
using namespace meshbus::cli;

namespace {

/// "h1 train 0 1 h2 ...": the rows in short.
std::string names_of(const SiteView& view, const TreeOptions& options) {
  std::string names;
  for (const auto& row : make_rows(view, options)) {
    names += names.empty() ? "" : " ";
    switch (row.kind) {
      case TreeRow::Kind::host: names += row.host->host.to_string().substr(4, 2); break;
      case TreeRow::Kind::mesh: names += row.mesh->name.substr(0, row.mesh->name.find('-')); break;
      case TreeRow::Kind::rank: names += std::to_string(row.rank->report.rank); break;
    }
  }
  return names;
}

}  // namespace

TEST_CASE("site_tree: hosts, their meshes, their ranks; ends in order only when asked for") {
  const auto view = make_view();
  CHECK(names_of(view, {}) == "h1 train 0 1 h2 eval 1 train 2 h3 train 3");
  CHECK(names_of(view, {.has_ended = true}) == "h1 train 0 1 h2 eval 0 1 train 2 h3 train 3");
}

TEST_CASE("site_tree: each key sorts what lies side by side, most first") {
  const auto view = make_view();
  CHECK(names_of(view, {.sort = SortKey::cpu}) == "h3 train 3 h1 train 1 0 h2 eval 1 train 2");
  CHECK(names_of(view, {.sort = SortKey::state}) == "h3 train 3 h2 train 2 eval 1 h1 train 1 0");
  CHECK(names_of(view, {.sort = SortKey::queue}) == "h1 train 1 0 h2 eval 1 train 2 h3 train 3");
  CHECK(names_of(view, {.sort = SortKey::attempts}) == "h2 train 2 eval 1 h1 train 0 1 h3 train 3");
  CHECK(names_of(view, {.is_reversed = true}) == "h3 train 3 h2 train 2 eval 1 h1 train 1 0");
}

TEST_CASE("site_tree: a filter leaves what has all its words, and what lies above that") {
  const auto view = make_view();
  CHECK(names_of(view, {.filter = "loss 0.71"}) == "h1 train 1");
  CHECK(names_of(view, {.filter = "TRAIN node2"}) == "h2 train 2");
  CHECK(names_of(view, {.filter = "lost"}) == "h3 train 3");
  CHECK(names_of(view, {.filter = "#3"}) == "h3 train 3");
  CHECK(names_of(view, {.filter = "no such word"}).empty());
}

TEST_CASE("site_tree: folded rows keep the sums of what they hide") {
  const auto view = make_view();
  const auto rows = make_rows(view, {.folded = {"tcp:h1:7420", "tcp:h2:7420\ntrain-13Se1Maqzryj"}});
  REQUIRE(rows.size() == 8);
  CHECK(rows[0].is_folded);
  CHECK(rows[0].figures.ranks == 2);
  CHECK(rows[0].figures.cpu == doctest::Approx(0.75));
  CHECK(rows[0].figures.memory == 300ULL << 20);
  CHECK(rows[0].figures.queued == 1500);
  CHECK(to_string(make_rows(view, {})[1].ranks) == "0-1");
}

TEST_CASE("row_text: ages and rates in few characters") {
  using namespace std::chrono_literals;
  CHECK(age_text(0s) == "0s");
  CHECK(age_text(-5s) == "0s");
  CHECK(age_text(185s) == "3m05s");
  CHECK(age_text(2h + 7min) == "2h07m");
  CHECK(age_text(100h) == "4d4h");
  CHECK(rate_text(0.4) == "0");
  CHECK(rate_text(999) == "999");
  CHECK(rate_text(1500) == "1.5k");
  CHECK(rate_text(123456) == "123k");
  CHECK(rate_text(2e6) == "2.0M");
}

TEST_CASE("site_tree: numbers in names count as numbers") {
  SiteView view;
  for (const char* const name : {"tcp:h10:7420", "tcp:h2:7420", "tcp:h02:7420", "tcp:g11:1"})
    view.hosts.emplace_back().host = *HostAddr::parse(name);
  std::string names;
  for (const auto& row : make_rows(view, {})) names += row.key + " ";
  CHECK(names == "tcp:g11:1 tcp:h2:7420 tcp:h02:7420 tcp:h10:7420 ");
}

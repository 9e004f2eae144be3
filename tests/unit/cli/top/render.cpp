// What meshbus top draws, apart from whole screens (screens.cpp).
#include "cli/top/top_render.h"

#include <doctest/doctest.h>

#include "tests/unit/cli/top/sites.h"

using namespace meshbus::cli;

TEST_CASE("top_render: every line is as wide as the window, whatever ranks write") {
  auto state = make_state();
  auto rank = std::make_shared<meshbus::SiteRank>(*state.view.meshes[1].ranks[0]);
  rank->last_line = "\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 \x1b[2J\r\n\t\x9b" + std::string(500, 'x');
  state.view.meshes[1].ranks[0] = rank;
  for (const std::size_t columns : std::vector<std::size_t>{60, 61, 80, 133, 200}) {
    const auto screen = render(state, columns, 24);
    REQUIRE(screen.rows() == 24);
    for (std::size_t row = 0; row < screen.rows(); ++row) {
      REQUIRE(screen.line(row).size() == columns);
      for (const auto& cell : screen.line(row)) {
        const bool is_control =
            !cell.glyph.empty() && static_cast<unsigned char>(cell.glyph[0]) < 0x20;
        CHECK_FALSE(is_control);
      }
    }
  }
}

TEST_CASE("top_render: a window that is too small says so") {
  auto state = make_state();
  CHECK(render(state, 20, 5).text() == "window 20x5: top nee\nds 60x10\n\n\n\n");
  CHECK(render(state, 0, 0).text().empty());
  CHECK(render(state, 1, 1).text() == "w\n");
}

TEST_CASE("top_render: inks say what needs attention; the selected row is marked") {
  auto state = make_state("h3");
  const auto screen = render(state, 80, 24);
  bool is_found = false;
  for (std::size_t row = 3; row < 22; ++row) {
    std::string line;
    bool is_bad = false;
    for (const auto& cell : screen.line(row)) {
      line += cell.glyph;
      is_bad = is_bad || cell.ink == Ink::bad;
    }
    if (line.find("tcp:h3:7420") == std::string::npos) continue;
    is_found = true;
    CHECK(is_bad);
    CHECK(screen.line(row)[0].is_selected);
    CHECK(line.find("lost 1m15s") != std::string::npos);
  }
  CHECK(is_found);
}

TEST_CASE("top_render: the selected row stays on the screen when there are many") {
  auto state = make_state();
  auto& ranks = state.view.meshes[1].ranks;
  for (std::uint64_t number = 4; number < 3000; ++number) {
    auto rank = std::make_shared<meshbus::SiteRank>(*ranks[0]);
    rank->report.rank = number;
    ranks.push_back(rank);
  }
  const auto rows = make_rows(state.view, state.tree);
  state.selected = rows[2000].key;
  const auto screen = render(state, 80, 24);
  std::size_t selected = 0;
  for (std::size_t row = 0; row < screen.rows(); ++row) selected += screen.line(row)[0].is_selected;
  CHECK(selected == 1);
}

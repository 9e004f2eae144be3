// What meshbus top draws, compared with whole screens in golden files beside this one. A screen
// that is not there yet is written, and the test fails once: look at it before you commit it.
#include "cli/top/top_render.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/golden.h"
#include "tests/unit/cli/top/sites.h"

using namespace meshbus::cli;

namespace {

void check_golden(const std::string& name, const std::string& screen) {
  const auto path = std::filesystem::path(meshbus::test::source_dir()) /
                    "tests/unit/cli/top/screens" / (name + ".txt");
  std::ifstream file(path);
  if (!file) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << screen;
    FAIL("written: " << path.string());
  }
  std::ostringstream expected;
  expected << file.rdbuf();
  CHECK(screen == expected.str());
}

}  // namespace

TEST_CASE("top_render: a site at 80x24 and at 200x60 is what the golden screens show") {
  auto state = make_state("train 1");
  check_golden("list_80x24", render(state, 80, 24).text());
  check_golden("list_200x60", render(state, 200, 60).text());
}

TEST_CASE("top_render: help, a question and a pane at 80x24") {
  auto state = make_state("train 1");
  state.mode = TopState::Mode::help;
  check_golden("help_80x24", render(state, 80, 24).text());
  state.mode = TopState::Mode::confirm;
  state.question = "Stop train-13Se1Maqzryj[1]?";
  check_golden("confirm_80x24", render(state, 80, 24).text());
  state.mode = TopState::Mode::pane;
  state.pane = {.title = "why train", .lines = {"first:", "  \x1b]0;title\x07 rank 2"}};
  check_golden("pane_80x24", render(state, 80, 24).text());
}

TEST_CASE("top_render: a long line of a pane is read by moving to the side") {
  auto state = make_state();
  state.mode = TopState::Mode::pane;
  state.pane = {.title = "why train", .lines = {"short", std::string(100, 'x') + "end"}};
  const auto first_row = [&] {
    const auto text = render(state, 80, 24).text();
    const auto begin = text.find('\n', text.find('\n') + 1) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  CHECK(first_row() == std::string(79, 'x') + ">");
  state.pane.left = 1000;
  CHECK(first_row() == "<" + std::string(76, 'x') + "end");
  CHECK(state.pane.left == 23);
}

TEST_CASE("top_render: the table of --once has every row whole") {
  check_golden("once", table_of(make_view()));
}

// What keys of meshbus top do: moving, folding, and orders, which ask before they act.
#include "cli/top/top_keys.h"

#include <doctest/doctest.h>

#include "tests/unit/cli/top/sites.h"

using namespace meshbus::cli;
using Kind = TopOrder::Kind;
using Mode = TopState::Mode;
using Words = std::vector<std::string>;

namespace {

constexpr std::size_t kLines = 24;

TopOrder type(TopState& state, const std::string& text) {
  TopOrder order;
  for (const char letter : text) order = on_key(state, letter, kLines);
  return order;
}

}  // namespace

TEST_CASE("top_keys: stop asks first, and only y does it") {
  auto state = make_state("train 1");
  CHECK(type(state, "x").kind == Kind::none);
  CHECK(state.mode == Mode::confirm);
  CHECK(state.question == "Stop train-13Se1Maqzryj[1]?");
  CHECK(type(state, "n").kind == Kind::none);
  CHECK(state.message == "Nothing was done.");
  type(state, "x");
  const auto order = type(state, "y");
  CHECK(order.kind == Kind::act);
  CHECK(order.words == Words{"stop", "train-13Se1Maqzryj[1]"});
}

TEST_CASE("top_keys: on a mesh they mean its ranks on that host") {
  auto state = make_state("train");
  type(state, "x");
  CHECK(state.question == "Stop train-13Se1Maqzryj[0-1]?");
}

TEST_CASE("top_keys: a signal is typed, TERM by default, and asked for") {
  auto state = make_state("train 2");
  state.host_words = {"--hosts", "tcp:h1:7420"};
  type(state, "kUSR1");
  on_key(state, kKeyEnter, kLines);
  CHECK(state.question == "Send USR1 to train-13Se1Maqzryj[2]?");
  CHECK(type(state, "y").words ==
        Words{"signal", "USR1", "train-13Se1Maqzryj[2]", "--hosts", "tcp:h1:7420"});
  type(state, "k");
  on_key(state, kKeyEnter, kLines);
  CHECK(state.question == "Send TERM to train-13Se1Maqzryj[2]?");
  on_key(state, kKeyEscape, kLines);
  CHECK(state.mode == Mode::list);
}

TEST_CASE("top_keys: why and logs open a pane, which keys scroll and close") {
  auto state = make_state("train 2");
  const auto why = type(state, "w");
  CHECK(why.kind == Kind::show);
  CHECK(why.words == Words{"why", "train-13Se1Maqzryj", "--rank", "2"});
  CHECK(state.mode == Mode::pane);
  state.pane.lines = std::vector<std::string>(100, "line");
  on_key(state, kKeyUp, kLines);
  CHECK(state.pane.first == 77);
  CHECK_FALSE(state.pane.is_at_end);
  on_key(state, kKeyEnd, kLines);
  CHECK(state.pane.is_at_end);
  on_key(state, kKeyRight, 24);
  CHECK(state.pane.left == 20);
  on_key(state, kKeyLeft, 24);
  on_key(state, kKeyLeft, 24);
  CHECK(state.pane.left == 0);
  CHECK(type(state, "q").kind == Kind::end_pane);
  CHECK(state.mode == Mode::list);
  CHECK(type(state, "l").words[0] == "logs");
  CHECK(type(state, "q").kind == Kind::end_pane);
  CHECK(type(state, "t").words == Words{"stacks", "train-13Se1Maqzryj[2]"});
}

TEST_CASE("top_keys: orders need a mesh or a rank") {
  auto state = make_state("h1");
  for (const char key : {'w', 'l', 't', 'k', 'x'}) {
    CHECK(on_key(state, key, kLines).kind == Kind::none);
    CHECK(state.mode == Mode::list);
    CHECK(state.message == "Choose a mesh or a rank first.");
  }
}

TEST_CASE("top_keys: arrows move and fold; a row that is gone selects the first") {
  auto state = make_state("h1");
  const auto first = state.selected;
  on_key(state, kKeyDown, kLines);
  on_key(state, kKeyDown, kLines);
  CHECK(state.selected == first + "\ntrain-13Se1Maqzryj\n0");
  on_key(state, kKeyUp, kLines);
  on_key(state, kKeyLeft, kLines);
  CHECK(make_rows(state.view, state.tree).size() == 10);
  on_key(state, kKeyEnter, kLines);
  CHECK(make_rows(state.view, state.tree).size() == 12);
  type(state, "f");
  CHECK(make_rows(state.view, state.tree).size() == 7);
  type(state, "f");
  CHECK(make_rows(state.view, state.tree).size() == 3);
  type(state, "f");
  CHECK(make_rows(state.view, state.tree).size() == 12);
  on_key(state, kKeyEnd, kLines);
  CHECK(state.selected.ends_with("\n3"));
  state.selected = "no such row";
  on_key(state, kKeyDown, kLines);
  CHECK(state.selected == first + "\ntrain-13Se1Maqzryj");
}

TEST_CASE("top_keys: a filter works while it is typed, and Escape ends it") {
  auto state = make_state();
  type(state, "/loss");
  CHECK(state.tree.filter == "loss");
  on_key(state, kKeyBackspace, kLines);
  CHECK(state.tree.filter == "los");
  on_key(state, kKeyEnter, kLines);
  CHECK(state.mode == Mode::list);
  on_key(state, kKeyEscape, kLines);
  CHECK(state.tree.filter.empty());
}

TEST_CASE("top_keys: no key does harm in an empty site") {
  TopState state;
  for (int key = 1; key < 0x7F; ++key) {
    if (key == 'q') continue;
    const auto order = on_key(state, key, 1);
    CHECK(order.kind != Kind::act);
    CHECK(order.kind != Kind::show);
  }
}

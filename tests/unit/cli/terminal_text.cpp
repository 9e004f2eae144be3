// Colours of our own, and what a terminal may show of what ranks wrote.
#include "cli/support/terminal_text.h"

#include <doctest/doctest.h>

#include <string>

#include "cli/support/table.h"

using namespace meshbus::cli;

TEST_CASE("terminal_text: a rank's colours stay and end with its line; all else is escaped") {
  CHECK(for_terminal("plain\ttext") == "plain\ttext");
  CHECK(for_terminal("\x1b[1;31mred") == "\x1b[1;31mred\x1b[0m");
  CHECK(for_terminal("a\x1b[2Jb") == "a\\u{1b}[2Jb");
  CHECK(for_terminal("\x1b]0;title\x07") == "\\u{1b}]0;title\\u{7}");
  CHECK(for_terminal("\x1b[31") == "\\u{1b}[31");
  CHECK(for_terminal("\xc3\xa4\x1b[32m\xc3\xb6\x1b[0m!") ==
        "\xc3\xa4\x1b[32m\xc3\xb6\x1b[0m!\x1b[0m");
  CHECK(for_terminal("").empty());
}

TEST_CASE("terminal_text: of a line that overwrites itself the last state is shown") {
  CHECK(for_terminal(" 10%\r 20%\r100%") == "100%");
  CHECK(for_terminal("windows\r") == "windows");
  CHECK(for_terminal("\r\r").empty());
}

TEST_CASE("terminal_text: lines of our own have their name in grey and a first failure in red") {
  CHECK(own_lines_in_colour("meshbus: | a\nmeshbus: first failure: b\nc\n") ==
        "\x1b[90mmeshbus:\x1b[0m | a\n"
        "\x1b[90mmeshbus:\x1b[0m\x1b[31m first failure: b\x1b[0m\nc\n");
  CHECK(own_lines_in_colour("").empty());
}

TEST_CASE("terminal_text: a coloured cell is padded by what is seen of it") {
  Table table({{"STATE", Table::Side::left, colour_of_state}, {"RANK"}});
  table.add({"Failed", "1"});
  table.add({"Running", "2"});
  CHECK(table.text({}, true) ==
        "STATE    RANK\n"
        "\x1b[31mFailed\x1b[0m   1\n"
        "\x1b[32mRunning\x1b[0m  2\n");
  CHECK(table.text() == "STATE    RANK\nFailed   1\nRunning  2\n");
}

TEST_CASE("terminal_text: neighbours have different colours, and no colour is no bytes") {
  for (std::uint64_t rank = 0; rank < 12; ++rank)
    CHECK(colour_of_rank(rank) != colour_of_rank(rank + 1));
  CHECK(in_colour(Colour::none, "text") == "text");
}

// What shells send to complete a command line, and what they get (spec 12.8).
#include "cli/help/shells.h"

#include <doctest/doctest.h>

using namespace meshbus::cli;
using Words = std::vector<std::string>;

TEST_CASE("shells: a line is split as far as it was typed, without its quotes") {
  CHECK(split_line("meshbus st") == Words{"meshbus", "st"});
  CHECK(split_line("meshbus stop ") == Words{"meshbus", "stop", ""});
  CHECK(split_line("  meshbus   ps\t") == Words{"meshbus", "ps", ""});
  CHECK(split_line("") == Words{""});
  CHECK(split_line("meshbus stop 'train[0-") == Words{"meshbus", "stop", "train[0-"});
  CHECK(split_line("run -- sh -c \"a b\" ''") == Words{"run", "--", "sh", "-c", "a b", ""});
  CHECK(split_line(R"(run a\ b 'c\d' "e\"f")") == Words{"run", "a b", "c\\d", "e\"f"});
  CHECK(split_line("run a\\") == Words{"run", "a\\"});
}

TEST_CASE("shells: each shell gets candidates in the form that it reads") {
  const Completion completion{.candidates = {{"tcp:h1:7420", "in\nuse"}, {"tcp:h2:7420", ""}}};
  CHECK(completion_lines(Shell::fish, completion, "tcp:") ==
        "nothing\ntcp:h1:7420\tin use\ntcp:h2:7420\n");
  CHECK(completion_lines(Shell::zsh, completion, "tcp:") ==
        "nothing\ntcp\\:h1\\:7420:in use\ntcp\\:h2\\:7420\n");
  SUBCASE("bash gets what follows the last ':' or '=', where it splits words") {
    CHECK(completion_lines(Shell::bash, completion, "") == "nothing\ntcp:h1:7420\ntcp:h2:7420\n");
    CHECK(completion_lines(Shell::bash, completion, "tcp:") == "nothing\nh1:7420\nh2:7420\n");
    CHECK(completion_lines(Shell::bash, completion, "tcp:h1:7") == "nothing\n7420\n7420\n");
  }
}

TEST_CASE("shells: files and commands are left to the shell") {
  CHECK(completion_lines(Shell::zsh, {.shell = Completion::Shell::files}, "") == "files\n");
  CHECK(completion_lines(Shell::bash, {.shell = Completion::Shell::command, .command_at = 4}, "") ==
        "command 4\n");
}

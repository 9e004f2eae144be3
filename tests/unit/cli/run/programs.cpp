// Several programs on one command line (spec 17.6).
#include "cli/run/programs.h"

#include <doctest/doctest.h>

using meshbus::cli::split_programs;
using Words = std::vector<std::string>;

TEST_CASE("programs: a : with flags and -- behind it begins another program") {
  const auto programs = split_programs(
      {"trainer", "--lr", "1", ":", "-n", "4", "--", "rollout", ":", "--", "store", "x"});
  REQUIRE(programs.has_value());
  REQUIRE(programs->size() == 3);
  CHECK((*programs)[0].command == Words{"trainer", "--lr", "1"});
  CHECK((*programs)[0].options.empty());
  CHECK((*programs)[1].options == Words{"-n", "4"});
  CHECK((*programs)[1].command == Words{"rollout"});
  CHECK((*programs)[2].options.empty());
  CHECK((*programs)[2].command == Words{"store", "x"});
}

TEST_CASE("programs: any other : is a word of the command") {
  for (const Words& words : {Words{"sh", "-c", ":"}, Words{":"}, Words{"echo", ":", "a", "--", "b"},
                             Words{"echo", "a:b", "--", "c"}, Words{}}) {
    const auto programs = split_programs(words);
    REQUIRE(programs.has_value());
    REQUIRE(programs->size() == 1);
    CHECK(programs->front().command == words);
  }
}

TEST_CASE("programs: a : with a flag behind it is a word of the command when it is written \\:") {
  const auto programs = split_programs(
      {"find", "\\:", "-n", "--", "x", "\\\\:", "a\\:", "\\", ":", "--", "b", "\\:"});
  REQUIRE(programs.has_value());
  REQUIRE(programs->size() == 2);
  CHECK((*programs)[0].command == Words{"find", ":", "-n", "--", "x", "\\:", "a\\:", "\\"});
  CHECK((*programs)[1].command == Words{"b", ":"});
}

TEST_CASE("programs: a program without a command, or flags without --, is refused") {
  const auto words_of = [](const Words& words) {
    const auto programs = split_programs(words);
    REQUIRE_FALSE(programs.has_value());
    return programs.error().detail();
  };
  CHECK(words_of({":", "-n", "4", "--", "b"}) == "there is no command in front of ':'");
  CHECK(words_of({"a", ":", "-n", "4", "--"}) == "there is no command behind the last --");
  CHECK(words_of({"a", ":", "-n", "4", "b"}).find("its command comes last, after --") !=
        std::string::npos);
  CHECK(words_of({"a", ":", "-n", "4", "b"}).ends_with("write '\\:'"));
}

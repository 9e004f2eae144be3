// `meshbus mesh`: the algebra of meshes on the command line (spec 1, 2.5, 3.5).
#include <doctest/doctest.h>

#include "tests/world/command_line.h"

using namespace meshbus::test;
using nlohmann::json;

namespace {

const std::string four = "test:local:1,local:2,local:3,local:4@replica=2/2,host=2/1";

std::string out_of(Words words) {
  words.insert(words.begin(), "mesh");
  const auto finished = run_cli(words);
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.err.empty());
  return finished.out;
}

/// What is said on stderr about words that are wrong.
std::string error_of(Words words) {
  words.insert(words.begin(), "mesh");
  const auto finished = run_cli(words);
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.out.empty());
  return finished.err;
}

}  // namespace

TEST_CASE("cli: mesh show draws the ranks of a region") {
  CHECK(out_of({"show", "x=2/3,y=3/1"}) ==
        "     y=0  y=1  y=2\n"
        "x=0    0    1    2\n"
        "x=1    3    4    5\n");
  CHECK(out_of({"show", "r=2/8,x=2/4,\"dim/0\"=2/3"}) ==
        "r=0\n     \"dim/0\"=0  \"dim/0\"=1\nx=0          0          3\nx=1          4          7\n"
        "\nr=1\n     \"dim/0\"=0  \"dim/0\"=1\nx=0          8         11\nx=1         12         "
        "15\n");
  CHECK(out_of({"show", "98+x=3/1"}) == "x=0  x=1  x=2\n 98   99  100\n");
  CHECK(out_of({"show", "8+"}) == "8\n");
  CHECK(out_of({"show", ""}) == "0\n");
  CHECK(out_of({"show", "x=0/1,y=2/1"}) == "no ranks\n");
  const json shown = parse_json(out_of({"show", "8+x=2/1", "--json"}));
  const char* expected = R"(
    {"region": "8+x=2/1", "extent": "{x: 2}", "num_ranks": 2, "offset": 8,
     "axes": [{"label": "x", "size": 2, "stride": 1}], "ranks": [8, 9]})";
  CHECK(shown == parse_json(expected));
}

TEST_CASE("cli: mesh ranks lists the base ranks in the region's order") {
  CHECK(out_of({"ranks", "8+x=2/1,y=3/2"}) == "8\n10\n12\n9\n11\n13\n");
  CHECK(parse_json(out_of({"ranks", "--json", "8+x=2/1,y=3/2"})) == json({8, 10, 12, 9, 11, 13}));
  CHECK(parse_json(out_of({"ranks", "x=0/1", "--json"})) == json::array());
  CHECK(parse_json(out_of({"ranks", "", "--json"})) == json::array({0}));
  CHECK(parse_json(out_of({"ranks", "9223372036854775806+", "--json"})) ==
        json::array({9223372036854775806U}));
}

TEST_CASE("cli: mesh slice cuts references from left to right") {
  CHECK(out_of({"slice", four, "replica=1"}) == "test:local:3,local:4@2+replica=1/2,host=2/1\n");
  CHECK(out_of({"slice", four, "replica=1:", "host=:1"}) ==
        "test:local:3@2+replica=1/2,host=1/1\n");
  CHECK(out_of({"slice", four, "host=::2"}) == "test:local:1,local:3@replica=2/2,host=1/2\n");
  CHECK(out_of({"slice", four, "host=:"}) == four + "\n");
  CHECK(out_of({"slice", four}) == four + "\n");
  CHECK(out_of({"slice", "m:unix:@a@b,unix:@c@\"dim/0\"=2/1", "\"dim/0\"=1"}) ==
        "m:unix:@c@1+\"dim/0\"=1/1\n");
  const json sliced = parse_json(out_of({"slice", "--json", four, "host=1:9"}));
  CHECK(sliced == json({{"ref", "test:local:2,local:4@1+replica=2/2,host=1/1"},
                        {"region", "1+replica=2/2,host=1/1"},
                        {"ranks", {1, 3}}}));
  // Each slice cuts what the one before has left.
  CHECK(out_of({"slice", "m:local:0,local:1,local:2,local:3,local:4,local:5@x=6/1", "x=1:6",
                "x=::2", "x=1:"}) == "m:local:3,local:5@3+x=2/2\n");
}

TEST_CASE("cli: mesh group gives a region per coordinate of the axes before a label") {
  CHECK(out_of({"group", "replica=2/2,host=2/1", "host"}) == "host=2/1\n2+host=2/1\n");
  CHECK(parse_json(out_of({"group", "replica=2/2,host=2/1", "host", "--json"})) ==
        json({"host=2/1", "2+host=2/1"}));
  CHECK(parse_json(out_of({"group", "x=2/1", "x", "--json"})) == json({"x=2/1"}));
  CHECK(parse_json(out_of({"group", "\"a\\\"\"=2/3,y=3/1", "\"a\\\"\"", "--json"})) ==
        json({"\"a\\\"\"=2/3,y=3/1"}));
}

TEST_CASE("cli: mesh merge puts one overlay over another") {
  CHECK(out_of({"merge", "0..5=A,5..10=B", "3..7=C"}) == "0..3=A,3..7=C,7..10=B\n");
  CHECK(parse_json(out_of({"merge", "0..5=A", "5..9=A", "--json"})) ==
        json({{"overlay", "0..9=A"}}));
  CHECK(out_of({"merge", "", "0..5=A"}) == "0..5=A\n");
  CHECK(out_of({"merge", "0..5=A", ""}) == "0..5=A\n");
  CHECK(parse_json(out_of({"merge", "--json", "", ""})) == json({{"overlay", ""}}));
}

TEST_CASE("cli: mesh points at the column that is wrong and exits 2") {
  CHECK(error_of({"show", "x=2/1,y=2/1"}) ==
        "meshbus: region: at 6: NonuniqueStrides: axes x and y have the same stride 1\n"
        "  x=2/1,y=2/1\n"
        "        ^\n");
  CHECK(error_of({"ranks", "x=2"}) ==
        "meshbus: region: at 3: expected '/', found the end\n  x=2\n     ^\n");
  CHECK(error_of({"ranks", "\"d\xC3\xA9\xE2\x82\xAC\"=2/x", "--json"}) ==
        "meshbus: region: at 11: expected a stride, found 'x'\n  \"d\xC3\xA9\xE2\x82\xAC\"=2/x\n   "
        "       ^\n");
  CHECK(error_of({"slice", "test:local:1@x=2/1", "x=0"}) ==
        "meshbus: host mesh reference: at 5: InvalidRankCardinality: expected 2 hosts, one for "
        "each rank of region \"x=2/1\", found 1\n"
        "  test:local:1@x=2/1\n"
        "       ^\n");
  CHECK(error_of({"slice", four, "host=2"}) ==
        "meshbus: slice: at 5: test: region: EmptyRange: range 2..3 of axis host, which has size "
        "2, has no index\n"
        "  host=2\n"
        "       ^\n");
  CHECK(error_of({"slice", four, "host=1", "gpu=1"}) ==
        "meshbus: slice: at 0: test: region: InvalidDim: no axis gpu: the axes are replica, host\n "
        " gpu=1\n  ^\n");
  CHECK(error_of({"slice", four, "host"}) ==
        "meshbus: slice: at 4: expected '=', found the end\n  host\n      ^\n");
  CHECK(error_of({"slice", four, "host="}) ==
        "meshbus: slice: at 5: expected an index or BEGIN:END:STEP, found the end\n  host=\n       "
        "^\n");
  CHECK(
      error_of({"slice", four, "host=0:2:0"}) ==
      "meshbus: slice: at 9: expected a step of at least 1, found 0\n  host=0:2:0\n           ^\n");
  CHECK(
      error_of({"slice", four, "host=0:x"}) ==
      "meshbus: slice: at 7: expected an index to end before, found 'x'\n  host=0:x\n         ^\n");
  CHECK(error_of({"slice", four, "host=18446744073709551615"})
            .find("at 5: expected an index or BEGIN:END:STEP of at most ") != std::string::npos);
  CHECK(error_of({"group", "x=2/1", "y"}) ==
        "meshbus: label: at 0: region: InvalidDim: no axis y: the axes are x\n  y\n  ^\n");
  CHECK(error_of({"group", "x=2/1", "x y"}) ==
        "meshbus: label: at 1: expected the end of the label, found ' '\n  x y\n   ^\n");
  CHECK(error_of({"merge", "0..5=A", "0..5=A,4..6=B"}) ==
        "meshbus: overlay: at 7: rank 4 occurs twice\n  0..5=A,4..6=B\n         ^\n");
  // What would move the cursor is shown as what it is, and a long text is cut around the place.
  CHECK(error_of({"show", "x=2/1\x1B[31m"}) ==
        "meshbus: region: at 5: expected ',' or the end, found '\\u{1b}'\n  x=2/1\\u{1b}[31m\n     "
        "  ^\n");
  const std::string long_label(300, 'a');
  CHECK(error_of({"show", long_label + "=x" + std::string(300, 'b')}) ==
        "meshbus: region: at 301: expected a size, found 'x'\n  ..." + std::string(59, 'a') + "=x" +
            std::string(39, 'b') + "...\n" + std::string(65, ' ') + "^\n");
}

TEST_CASE("cli: mesh knows its verbs") {
  CHECK(error_of({"slcie", four}) == "meshbus: unknown command 'slcie'; did you mean 'slice'?\n");
  CHECK(error_of({"show", "x=2/1", "--jsn"}) ==
        "meshbus: meshbus mesh show has no --jsn; did you mean --json?\n");
  CHECK_FALSE(error_of({"show"}).empty());
  CHECK(error_of({}) == "meshbus: meshbus mesh what? The commands are in meshbus mesh --help\n");
  CHECK(out_of({"slice", "--help"}).find("LABEL=INDEX or LABEL=[BEGIN]:[END][:STEP]") !=
        std::string::npos);
}

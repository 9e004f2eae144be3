#include "meshbus/status_mesh.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/mesh/property.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;
using namespace std::chrono_literals;
using Kind = Status::Kind;

TEST_CASE("status_mesh: text of grouped ranks") {
  CHECK(to_string(parse_statuses("Running=0..5,7..8;Failed=5..7").value()) ==
        "Running=0..5,7..8;Failed=5..7");
  CHECK(
      to_string(parse_statuses(" Failed(\"a;b\") = 5 .. 7 ; Running = 7..8 , 0..5 ; Running=8..9 ")
                    .value()) == "Running=0..5,7..9;Failed(\"a;b\")=5..7");
  CHECK(to_string(StatusOverlay::of({{0, 1, Status::timeout(30s)},
                                     {1, 2, Status::failed("b")},
                                     {2, 3, Status::failed("a")},
                                     {3, 4, {}}})) ==
        "Unknown=3..4;Failed(\"a\")=2..3;Failed(\"b\")=1..2;Timeout(30s)=0..1");
  CHECK(parse_statuses("").value().is_empty());
  CHECK(to_string(StatusOverlay()).empty());
  const StatusMesh mesh(Extent::make({{"x", 4}}).value(), Kind::running);
  CHECK(to_string(mesh) == "Running=0..4");
}

TEST_CASE("status_mesh: what prints parses to the same") {
  test::for_cases(1000, [](test::Random& random) {
    const std::vector<Status> statuses = {
        Kind::unknown,
        Kind::running,
        Kind::failed,
        Status::failed(test::any_label(random)),
        Status::failed("exit 3"),
        Status::timeout(std::chrono::milliseconds(random() % 5000))};
    std::vector<StatusOverlay::Run> runs;
    for (std::uint64_t n = random() % 8; n > 0; --n) {
      const std::uint64_t begin = random() % 64;
      runs.push_back({begin, begin + random() % 12, statuses[random() % statuses.size()]});
    }
    const auto overlay = StatusOverlay::of(runs);
    const std::string text = to_string(overlay);
    CAPTURE(text);
    const auto parsed = parse_statuses(text);
    REQUIRE(parsed.has_value());
    REQUIRE(*parsed == overlay);
    // And as a mesh: the rest is not there.
    StatusMesh mesh(Extent::make({{"x", 100}}).value(), Kind::not_exist);
    REQUIRE(mesh.merge(overlay).has_value());
    REQUIRE(StatusMesh::make(mesh.region(), parse_statuses(to_string(mesh)).value()).value() ==
            mesh);
  });
}

TEST_CASE("status_mesh: who is missing, and where they stand") {
  StatusMesh mesh(Extent::make({{"x", 8}}).value(), Kind::not_exist);
  REQUIRE(
      mesh.merge(parse_statuses("Running=0..3;Initializing=3..5;Unknown=5..6;Stopped=6..7").value())
          .has_value());
  CHECK(to_string(missing(mesh, Kind::running)) == "Unknown=5..6;NotExist=7..8;Initializing=3..5");
  CHECK(count_missing(mesh, Kind::running) == 4);
  CHECK(count_missing(mesh, Kind::unknown) == 1);
  CHECK(count_missing(mesh, Kind::timeout) == 8);
}

TEST_CASE("status_mesh: a bad text says where") {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {"Running", "statuses: at 7: expected '=', found the end"},
      {"Running=", "statuses: at 8: expected ranks (0..5), found the end"},
      {"Running=0..5;",
       "statuses: at 13: expected Unknown, NotExist, Initializing, Running, Stopping, Stopped, "
       "Failed or Timeout, found the end"},
      {"Running=0..5,", "statuses: at 13: expected ranks (0..5), found the end"},
      {"Running=0..5 x", "statuses: at 13: expected ',', ';' or the end, found 'x'"},
      {"Running=0..5;Failed=4..7", "statuses: at 20: rank 4 occurs twice"},
      {"Running=0..5,2..3", "statuses: at 13: rank 2 occurs twice"},
      {"Running=5..5", "statuses: at 8: expected ranks, found none in 5..5"},
      {"Runing=0..5",
       "statuses: at 0: expected Unknown, NotExist, Initializing, Running, Stopping, Stopped, "
       "Failed or Timeout, found 'R'"},
      {"Failed(=0..5",
       "statuses: at 7: expected a label (a letter, '_' or a quoted text), found '='"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const auto statuses = parse_statuses(text);
    REQUIRE_FALSE(statuses.has_value());
    CHECK(statuses.error().code() == ErrorCode::parse_error);
    CHECK(statuses.error().detail() == expected);
  }
}

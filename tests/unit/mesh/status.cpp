#include "meshbus/status.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/unit/mesh/property.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;
using namespace std::chrono_literals;
using Kind = Status::Kind;

TEST_CASE("status: which are terminating, terminated, failures, healthy") {
  struct Row {
    Kind kind;
    bool terminating, terminated, failure, healthy;
  };
  const std::vector<Row> rows = {
      {Kind::unknown, false, false, false, false},
      {Kind::not_exist, false, false, false, false},
      {Kind::initializing, false, false, false, true},
      {Kind::running, false, false, false, true},
      {Kind::stopping, true, false, false, false},
      {Kind::stopped, true, true, false, false},
      {Kind::failed, true, true, true, false},
      {Kind::timeout, true, true, true, false},
  };
  for (const Row& row : rows) {
    const Status status = row.kind;
    CAPTURE(status);
    CHECK(status.is_terminating() == row.terminating);
    CHECK(status.is_terminated() == row.terminated);
    CHECK(status.is_failure() == row.failure);
    CHECK(status.is_healthy() == row.healthy);
    for (const Row& minimum : rows) {
      CHECK(status.has_reached(minimum.kind) ==
            (row.kind != Kind::unknown && row.kind >= minimum.kind));
    }
  }
}

TEST_CASE("status: unknown satisfies no wait, not even one for unknown") {
  CHECK_FALSE(Status().has_reached(Kind::not_exist));
  CHECK_FALSE(Status().has_reached(Kind::unknown));
  CHECK(Status(Kind::not_exist).has_reached(Kind::unknown));
  CHECK(Status(static_cast<Kind>(200)) == Status());
}

TEST_CASE("status: ordered by kind, then by reason or duration") {
  const std::vector<Status> ordered = {
      Kind::unknown,       Kind::not_exist,      Kind::initializing,   Kind::running,
      Kind::stopping,      Kind::stopped,        Kind::failed,         Status::failed("a"),
      Status::failed("b"), Status::timeout(0ms), Status::timeout(1ms), Status::timeout(1s)};
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    for (std::size_t j = 0; j < ordered.size(); ++j) {
      CHECK((ordered[i] < ordered[j]) == (i < j));
      CHECK((ordered[i] == ordered[j]) == (i == j));
    }
  }
}

TEST_CASE("status: text") {
  CHECK(Status(Kind::not_exist).to_string() == "NotExist");
  CHECK(Status(Kind::failed).to_string() == "Failed");
  CHECK(Status::failed("exit 3").to_string() == "Failed(\"exit 3\")");
  CHECK(Status::failed("a\"b\n\xFF").to_string() == "Failed(\"a\\\"b\\n\xEF\xBF\xBD\")");
  CHECK(Status::timeout(30s).to_string() == "Timeout(30s)");
  CHECK(Status::timeout(1500ms).to_string() == "Timeout(1500ms)");
  CHECK(Status::timeout(-5ms).to_string() == "Timeout");
  std::ostringstream out;
  out << Status(Kind::initializing);
  CHECK(out.str() == "Initializing");
  CHECK(Status::parse(" Failed ( oom ) ").value_or(Status()) ==
        Status());  // no space before the parenthesis
  CHECK(Status::parse(" Failed( oom ) ").value() == Status::failed("oom"));
  CHECK(Status::parse("Failed(\"\")").value() == Status(Kind::failed));
  CHECK(Status::parse("Timeout(0ms)").value() == Status(Kind::timeout));
}

TEST_CASE("status: what prints parses to the same") {
  test::for_cases(20'000, [](test::Random& random) {
    Status status = static_cast<Kind>(random() % 8);
    if (status.kind() == Kind::failed)
      status = Status::failed(random() % 8 == 0 ? std::string(1, static_cast<char>(random()))
                                                : test::any_label(random));
    if (status.kind() == Kind::timeout)
      status = Status::timeout(
          std::chrono::milliseconds(static_cast<std::int64_t>(test::any_number(random))));
    const std::string text = status.to_string();
    CAPTURE(text);
    const auto parsed = Status::parse(text);
    REQUIRE(parsed.has_value());
    REQUIRE(*parsed == status);
  });
}

TEST_CASE("status: a bad text says where") {
  const std::string names =
      "Unknown, NotExist, Initializing, Running, Stopping, Stopped, Failed or Timeout";
  const std::vector<std::pair<std::string_view, std::string>> cases = {
      {"", "status: at 0: expected " + names + ", found the end"},
      {"running", "status: at 0: expected " + names + ", found 'r'"},
      {"Runningly", "status: at 0: expected " + names + ", found 'R'"},
      {"Running!", "status: at 7: expected the end, found '!'"},
      {"Running(x)", "status: at 7: expected the end, found '('"},
      {"Failed(", "status: at 7: expected a label (a letter, '_' or a quoted text), found the end"},
      {"Failed(x", "status: at 8: expected ')', found the end"},
      {"Failed(exit 3)", "status: at 12: expected ')', found '3'"},
      {"Timeout(x)", "status: at 8: expected a duration (250ms, 30s), found 'x'"},
      {"Timeout(3)", "status: at 9: expected 'ms' or 's', found ')'"},
      {"Timeout(9223372036854775807s)",
       "status: at 8: expected a duration of at most 2^63 ms, found a longer one"},
  };
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const auto status = Status::parse(text);
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code() == ErrorCode::parse_error);
    CHECK(status.error().detail() == expected);
  }
}

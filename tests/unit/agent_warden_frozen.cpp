#include "agent/warden/frozen.h"

#include <doctest/doctest.h>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;

TEST_CASE("frozen: only who could have answered, or is stopped, is killed") {
  struct Row {
    char state;
    std::chrono::milliseconds waited;
    Silence expected;
  };
  for (const Row& row : {
           Row{'\0', 0ms, Silence::ended},
           Row{'Z', 30s, Silence::ended},
           Row{'X', 0ms, Silence::ended},
           Row{'D', 0ms, Silence::waits_for_device},
           Row{'D', 30s, Silence::waits_for_device},
           Row{'R', 30s, Silence::waits_for_cpu},
           Row{'R', 15001ms, Silence::waits_for_cpu},
           Row{'S', 16s, Silence::waits_for_cpu},
           Row{'T', 16s, Silence::waits_for_cpu},  // it was not stopped for most of that time
           Row{'R', 15s, Silence::stuck},          // it had half of the time to say something
           Row{'R', 0ms, Silence::stuck},
           Row{'S', 0ms, Silence::stuck},
           Row{'T', 0ms, Silence::stopped},
           Row{'t', 1s, Silence::stopped},
       }) {
    CAPTURE(row.state);
    CAPTURE(row.waited.count());
    CHECK(judge_silence(row.state, 30s, row.waited) == row.expected);
  }
}

TEST_CASE("frozen: a warden that was away itself blames nobody") {
  const std::chrono::steady_clock::time_point due{100s};
  CHECK_FALSE(was_away(due, due, 10s));
  CHECK_FALSE(was_away(due + 10s, due, 10s));
  CHECK(was_away(due + 10001ms, due, 10s));
  // Short limits are for tests: a look is not late because it was a moment late.
  CHECK_FALSE(was_away(due + 500ms, due, 100ms));
  CHECK(was_away(due + 501ms, due, 100ms));
  CHECK_FALSE(was_away(due - 1s, due, 10s));
}

}  // namespace
}  // namespace meshbus::warden

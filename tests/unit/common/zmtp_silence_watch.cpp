#include "common/zmtp/silence_watch.h"

#include <doctest/doctest.h>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {
const SilenceWatch::Time kBegin{100s};
using Due = SilenceWatch::Due;
}  // namespace

TEST_CASE("zmtp silence watch: asks three times within the limit, and then gives up") {
  SilenceWatch watch(1500ms, kBegin);
  CHECK(watch.look(kBegin + 500ms, 0ms) == Due::ping);
  CHECK(watch.look(kBegin + 700ms, 0ms) == Due::nothing);
  CHECK(watch.look(kBegin + 1000ms, 0ms) == Due::ping);
  CHECK(watch.look(kBegin + 1499ms, 0ms) == Due::nothing);
  CHECK(watch.look(kBegin + 1500ms, 0ms) == Due::lost);
}

TEST_CASE("zmtp silence watch: who is heard is asked all the same, as it may wait for us") {
  SilenceWatch watch(1500ms, kBegin);
  for (auto now = kBegin; now < kBegin + 10s; now += 500ms) {
    watch.hear(now);
    CHECK(watch.look(now, 0ms) == Due::ping);
  }
}

TEST_CASE("zmtp silence watch: a shorter limit that the other end asked for holds") {
  SilenceWatch watch(15s, kBegin);
  CHECK(watch.look(kBegin + 1400ms, 1500ms) == Due::ping);
  CHECK(watch.look(kBegin + 1500ms, 1500ms) == Due::lost);
}

TEST_CASE("zmtp silence watch: a process that was stopped itself gives a fresh grace") {
  SilenceWatch watch(1500ms, kBegin);
  CHECK(watch.look(kBegin + 60s, 0ms) == Due::ping);
  CHECK(watch.look(kBegin + 60500ms, 0ms) == Due::ping);
  CHECK(watch.look(kBegin + 61s, 0ms) == Due::ping);
  CHECK(watch.look(kBegin + 61500ms, 0ms) == Due::lost);
}

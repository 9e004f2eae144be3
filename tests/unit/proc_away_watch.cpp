#include "agent/proc/away_watch.h"

#include <doctest/doctest.h>

using meshbus::mesh_proc::AwayWatch;
using namespace std::chrono_literals;

namespace {
const AwayWatch::Time t0{100s};
}

TEST_CASE("proc_away_watch: who never answers is away from the start") {
  AwayWatch watch(10s, t0);
  CHECK(watch.is_away());
  CHECK(watch.end() == t0 + 10s);
  CHECK_FALSE(watch.is_over(t0 + 9s, t0 + 9s));
  CHECK(watch.is_over(t0 + 10s, t0 + 10s));
}

TEST_CASE("proc_away_watch: away counts from the first silence, not from the last answer or the last question") {
  AwayWatch watch(10s, t0);
  watch.on_answer();
  CHECK_FALSE(watch.is_away());
  CHECK_FALSE(watch.is_over(t0 + 100s, t0 + 100s));
  watch.on_silence(t0 + 100s);
  watch.on_silence(t0 + 105s);
  CHECK_FALSE(watch.is_over(t0 + 109s, t0 + 109s));
  CHECK(watch.is_over(t0 + 110s, t0 + 110s));
}

TEST_CASE("proc_away_watch: one answer is enough to be back") {
  AwayWatch watch(10s, t0);
  CHECK_FALSE(watch.is_over(t0 + 9s, t0 + 9s));
  watch.on_answer();
  watch.on_silence(t0 + 9500ms);
  CHECK_FALSE(watch.is_over(t0 + 19s, t0 + 19s));
  CHECK(watch.is_over(t0 + 19500ms, t0 + 19500ms));
}

TEST_CASE("proc_away_watch: being stopped oneself is a fresh grace for the others") {
  AwayWatch watch(10s, t0);
  watch.on_answer();
  watch.on_silence(t0);
  CHECK_FALSE(watch.is_over(t0 + 300s, t0 + 1s));  // stopped for 299 s
  CHECK_FALSE(watch.is_over(t0 + 309s, t0 + 309s));
  CHECK(watch.is_over(t0 + 310s, t0 + 310s));
}

TEST_CASE("proc_away_watch: a busy machine does not count as their absence, and does not hide it for ever") {
  AwayWatch watch(10s, t0);
  auto now = t0;
  int ticks = 0;
  do {
    now += 1500ms;  // each tick is 500 ms late
    ++ticks;
  } while (!watch.is_over(now, now - 500ms));
  CHECK(ticks == 10);
}

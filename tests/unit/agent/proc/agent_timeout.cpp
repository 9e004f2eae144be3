#include "agent/proc/runtime/agent_timeout.h"

#include <doctest/doctest.h>

using meshbus::mesh_proc::AgentTimeout;
using namespace std::chrono_literals;

namespace {
const AgentTimeout::Time kBegin{100s};
}

TEST_CASE("proc_away_watch: who never answers is away from the start") {
  AgentTimeout watch(10s, kBegin);
  CHECK(watch.is_away());
  CHECK(watch.end() == kBegin + 10s);
  CHECK_FALSE(watch.is_over(kBegin + 9s, kBegin + 9s));
  CHECK(watch.is_over(kBegin + 10s, kBegin + 10s));
}

TEST_CASE(
    "proc_away_watch: away counts from the first silence, not from the last answer or the last "
    "question") {
  AgentTimeout watch(10s, kBegin);
  watch.on_answer();
  CHECK_FALSE(watch.is_away());
  CHECK_FALSE(watch.is_over(kBegin + 100s, kBegin + 100s));
  watch.on_silence(kBegin + 100s);
  watch.on_silence(kBegin + 105s);
  CHECK_FALSE(watch.is_over(kBegin + 109s, kBegin + 109s));
  CHECK(watch.is_over(kBegin + 110s, kBegin + 110s));
}

TEST_CASE("proc_away_watch: one answer is enough to be back") {
  AgentTimeout watch(10s, kBegin);
  CHECK_FALSE(watch.is_over(kBegin + 9s, kBegin + 9s));
  watch.on_answer();
  watch.on_silence(kBegin + 9500ms);
  CHECK_FALSE(watch.is_over(kBegin + 19s, kBegin + 19s));
  CHECK(watch.is_over(kBegin + 19500ms, kBegin + 19500ms));
}

TEST_CASE("proc_away_watch: being stopped oneself is a fresh grace for the others") {
  AgentTimeout watch(10s, kBegin);
  watch.on_answer();
  watch.on_silence(kBegin);
  CHECK_FALSE(watch.is_over(kBegin + 300s, kBegin + 1s));  // stopped for 299 s
  CHECK_FALSE(watch.is_over(kBegin + 309s, kBegin + 309s));
  CHECK(watch.is_over(kBegin + 310s, kBegin + 310s));
}

TEST_CASE(
    "proc_away_watch: a busy machine does not count as their absence, and does not hide it for "
    "ever") {
  AgentTimeout watch(10s, kBegin);
  auto now = kBegin;
  int ticks = 0;
  do {
    now += 1500ms;  // each tick is 500 ms late
    ++ticks;
  } while (!watch.is_over(now, now - 500ms));
  CHECK(ticks == 10);
}

#include "cli/run/run_events.h"

#include <doctest/doctest.h>

using namespace meshbus;

TEST_CASE("run_events: ranks that are taken away are stopped for no reason to stop the others") {
  const cli::EventBell bell;
  cli::RunEvents events(bell);
  for (std::uint64_t rank = 0; rank < 4; ++rank) events.ready(rank);
  events.begin_leaving(2);
  events.resized(4);  // the news of a growth before
  events.stopped(3);
  CHECK_FALSE(events.first_stopped().has_value());
  events.stopped(1);
  CHECK(events.first_stopped() == 1);
  events.resized(2);
  CHECK(events.num_ready() == 2);
}

TEST_CASE("run_events: ranks that were to be taken away, and were not, count when they stop") {
  const cli::EventBell bell;
  cli::RunEvents events(bell);
  events.begin_leaving(2);
  events.stopped(3);
  events.keep_leaving();
  CHECK(events.first_stopped() == 3);
  // After a shrink that is done, ranks of these numbers are others.
  cli::RunEvents later(bell);
  later.begin_leaving(2);
  later.stopped(2);
  later.resized(2);
  CHECK_FALSE(later.first_stopped().has_value());
  later.stopped(2);
  CHECK(later.first_stopped() == 2);
}

#include "agent/proc/runtime/handler_watch.h"

#include <doctest/doctest.h>

using namespace meshbus::mesh_proc;
using namespace std::chrono_literals;

namespace {

const HandlerWatch::Time t0{100s};

}  // namespace

TEST_CASE("handler_watch: a handler is as old as the time since it was first seen") {
  HandlerWatch watch;
  CHECK_FALSE(watch.look(t0));
  {
    const HandlerWatch::Run run(watch, 7);
    const auto first = watch.look(t0 + 1s);
    REQUIRE(first);
    CHECK(first->port == 7);
    CHECK(first->busy == 0s);
    CHECK(watch.look(t0 + 121s)->busy == 120s);
  }
  CHECK_FALSE(watch.look(t0 + 122s));
}

TEST_CASE("handler_watch: a handler that comes between two looks is another one") {
  HandlerWatch watch;
  {
    const HandlerWatch::Run run(watch, 7);
    REQUIRE(watch.look(t0));
  }
  const HandlerWatch::Run run(watch, 7);
  // The same port, and not the same call.
  CHECK(watch.look(t0 + 200s)->busy == 0s);
  CHECK(watch.look(t0 + 201s)->busy == 1s);
}

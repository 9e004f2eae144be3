#include "client/controller/host_restarts.h"

#include <doctest/doctest.h>

#include "wire/control_generated.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;
using Time = HostRestarts::Time;

TEST_CASE("host_restarts: a host that does not know the mesh is not told again that it ends") {
  HostRestarts restarts;
  restarts.end();
  const Time now{1s};
  const auto order = restarts.take_start(now);
  REQUIRE(order);
  CHECK(order->ranks.empty());
  CHECK(restarts.on_start_answer(fail(ErrorCode::not_exist, ""), now).empty());
  CHECK(restarts.is_idle());
  CHECK_FALSE(restarts.take_start(now + 1h));
}

TEST_CASE("host_restarts: what was lost on the way is asked again, also the end") {
  HostRestarts restarts;
  restarts.end();
  Time now{1s};
  for (const auto code : {ErrorCode::timeout, ErrorCode::host_unreachable, ErrorCode::queue_full}) {
    REQUIRE(restarts.take_start(now));
    CHECK(restarts.on_start_answer(fail(code, ""), now).empty());
    CHECK_FALSE(restarts.is_idle());
    const auto due = restarts.next_due();
    REQUIRE(due);
    CHECK(*due > now);
    now = *due;
  }
  REQUIRE(restarts.take_start(now));
  restarts.on_start_answer({}, now);
  restarts.on_ended();
  CHECK(restarts.is_idle());
}

}  // namespace
}  // namespace meshbus

#include "common/base/own_pause.h"

#include <doctest/doctest.h>

namespace meshbus {
namespace {

using namespace std::chrono_literals;

TEST_CASE("own_pause: a check that is late by the limit follows a pause") {
  constexpr OwnPause pause(500ms);
  const OwnPause::Time due{100s};
  CHECK_FALSE(pause.was_away(due, due - 1h));
  CHECK_FALSE(pause.was_away(due, due));
  CHECK_FALSE(pause.was_away(due, due + 499ms));
  CHECK(pause.was_away(due, due + 500ms));
  CHECK(pause.length(due, due + 499ms) == 0ms);
  CHECK(pause.length(due, due + 3s) == 3s);
}

TEST_CASE("own_pause: without a limit every late check follows a pause") {
  constexpr OwnPause pause(0ms);
  const OwnPause::Time due{100s};
  CHECK_FALSE(pause.was_away(due, due));
  CHECK(pause.was_away(due, due + 1ns));
}

}  // namespace
}  // namespace meshbus

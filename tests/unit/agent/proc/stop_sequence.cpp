#include "agent/proc/runtime/stop_sequence.h"

#include <doctest/doctest.h>

#include <string>

using meshbus::mesh_proc::StopSequence;
using namespace std::chrono_literals;

namespace {

constexpr StopSequence::Time kNow{100s};

}  // namespace

TEST_CASE("stop_sequence: the first request decides, later ones only make the end sooner") {
  StopSequence stops;
  CHECK_FALSE(stops.is_asked());
  CHECK(stops.exit_code(3) == 3);
  CHECK(stops.end() == StopSequence::Time::max());
  CHECK(stops.limit(kNow + 10s));
  CHECK(stops.begin({143, "signal Terminated"}));
  CHECK_FALSE(stops.limit(kNow + 20s));
  CHECK_FALSE(stops.begin({7, "stop"}));
  CHECK(stops.limit(kNow + 1s));
  CHECK(stops.end() == kNow + 1s);
  CHECK(stops.exit_code(3) == 143);
  CHECK(stops.describe_limit().find("signal Terminated") != std::string::npos);
}

TEST_CASE("stop_sequence: a request changes nothing once the program ends by itself") {
  StopSequence stops;
  stops.begin_exit();
  CHECK_FALSE(stops.begin({143, "late"}));
  CHECK_FALSE(stops.is_asked());
  CHECK(stops.exit_code(3) == 3);
  CHECK(stops.describe_limit() == "its last handlers or messages took longer than 10 s");
}

TEST_CASE("stop_sequence: is drained when the handlers and the actors are") {
  StopSequence stops;
  stops.begin({143, "stop"});
  CHECK_FALSE(stops.is_drained());
  stops.part_done();
  CHECK_FALSE(stops.is_drained());
  stops.part_done();
  CHECK(stops.is_drained());
}

TEST_CASE("stop_sequence: what cuts it off decides, whatever came before, and once") {
  StopSequence stops;
  stops.begin({7, "stop"});
  CHECK(stops.cut({137, "killed"}));
  CHECK(stops.is_cut());
  CHECK(stops.exit_code(3) == 137);
  CHECK_FALSE(stops.cut({1, "again"}));
  CHECK(stops.exit_code(3) == 137);
}

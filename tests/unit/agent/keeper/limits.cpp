#include <doctest/doctest.h>
#include <unistd.h>

#include "agent/os/limit_places.h"
#include "tests/support/temp_dir.h"

namespace meshbus::os {
namespace {

TEST_CASE("limit_places: what the warden tells its roles is what they read") {
  LimitPlaces places;
  places.at(Controller::memory) = {1, "/sys/fs/cgroup/memory/a:b/meshbus-1"};
  places.at(Controller::pids) = {2, "/sys/fs/cgroup/meshbus-1"};
  places.at(Controller::cpu) = {0, "no hierarchy: of any kind"};
  LimitPlaces read;
  for (const Controller controller : kControllers)
    CHECK(read.read_text(places.to_text(controller)));
  for (const Controller controller : kControllers)
    CHECK(read.at(controller) == places.at(controller));
  for (const std::string text : {"", "memory", "memory:", "memory:1", "memory:1:", "memory:3:/x",
                                 "memory:-1:/x", "disk:1:/x", ":1:/x", "memory:12:/x"}) {
    CAPTURE(text);
    CHECK_FALSE(read.read_text(text));
  }
}

TEST_CASE(
    "limit_places: a limit that cannot be kept is refused with limit, place, reason and a way out; "
    "the others do not matter") {
  const test::TempDir dir;
  LimitPlaces places;
  places.at(Controller::memory) = {1, dir / "meshbus-1"};
  places.at(Controller::pids) = {1, dir / "gone/meshbus-1"};
  places.at(Controller::cpu) = {0, "there is no such controller"};
  CHECK(places.check({}));
  CHECK(places.check({.memory = 1 << 20}));
  const auto pids = places.check({.memory = 1 << 20, .pids = 7});
  REQUIRE_FALSE(pids);
  CHECK(pids.error().code() == ErrorCode::configuration_error);
  CHECK(pids.error().detail().starts_with(
      "a limit of 7 processes cannot be kept here: cannot make a cgroup in " + (dir / "gone") +
      ": No such file or directory; start the host in a cgroup of its own"));
  const auto cpu = places.check({.cpu_milli = 1500});
  REQUIRE_FALSE(cpu);
  CHECK(cpu.error().detail().starts_with(
      "a limit of 1.5 CPUs cannot be kept here: there is no such controller; "));
  // Nobody has looked.
  CHECK_FALSE(LimitPlaces().check({.memory = 1 << 20}));
}

TEST_CASE("limit_places: limits in words") {
  CHECK(words_of({.memory = 64 << 20}, Controller::memory) == "limit of 64MiB of memory");
  CHECK(words_of({.memory = 3ull << 30}, Controller::memory) == "limit of 3GiB of memory");
  CHECK(words_of({.memory = (1 << 20) + 1}, Controller::memory) ==
        "limit of 1048577 bytes of memory");
  CHECK(words_of({.cpu_milli = 2000}, Controller::cpu) == "limit of 2 CPUs");
  CHECK(words_of({.cpu_milli = 50}, Controller::cpu) == "limit of 0.05 CPUs");
  CHECK(words_of({.cpu_milli = 1234}, Controller::cpu) == "limit of 1.234 CPUs");
  CHECK(words_of({.memory = 1}, Controller::pids).empty());
}

}  // namespace
}  // namespace meshbus::os

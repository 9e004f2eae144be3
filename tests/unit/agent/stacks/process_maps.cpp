// /proc/PID/maps as the kernel writes it.
#include "agent/stacks/process_maps.h"

#include <doctest/doctest.h>

using meshbus::stacks::ProcessMaps;

TEST_CASE("process_maps: an address is found in its mapping, and between two there is none") {
  const auto maps = ProcessMaps::parse(
      "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1234                       /usr/bin/a b\n"
      "55d0c0001000-55d0c0004000 r-xp 00001000 fe:00 1234                       /usr/bin/a b\n"
      "nonsense\n"
      "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n"
      "7ffd00030000-7ffd00031000 rw-p 00000000 00:00 0\n");
  REQUIRE(maps.all().size() == 4);
  const auto* code = maps.find(0x55d0c0002fff);
  REQUIRE(code != nullptr);
  CHECK(code->path == "/usr/bin/a b");
  CHECK(code->is_file());
  CHECK(code->is_executable);
  CHECK(code->offset == 0x1000);
  CHECK(code->inode == 1234);
  CHECK(code->device == "fe:00");
  CHECK(maps.find(0x55d0c0004000) == nullptr);
  CHECK(maps.find(0) == nullptr);
  REQUIRE(maps.find(0x7ffd00000000) != nullptr);
  CHECK_FALSE(maps.find(0x7ffd00000000)->is_file());
  CHECK(maps.find(0x7ffd00030000)->path.empty());
}

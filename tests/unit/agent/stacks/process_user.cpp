// Whose processes are looked at, and by which user.
#include "agent/stacks/process_user.h"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace meshbus;
using namespace meshbus::stacks;

TEST_CASE("process_user: the real user and group of a process, and its other groups") {
  const auto ids = parse_process_user(
      "Name:\tsh\nUid:\t1000\t0\t0\t0\nGid:\t100\t100\t100\t100\nGroups:\t4 24 100 \nNSpid:\t7\n");
  CHECK(ids == UserIds{1000, 100, {4, 24, 100}});
  CHECK(parse_process_user("Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n") == UserIds{});
  CHECK(parse_process_user("Name:\tsh\nUid:\tx\n") == std::nullopt);
  CHECK(parse_process_user("") == std::nullopt);
  CHECK(user_of_process(::getpid())->user == ::getuid());
}

#include "common/security/launcher_name.h"

#include <doctest/doctest.h>

#include "wire/bus_generated.h"

using namespace meshbus;

TEST_CASE("launcher_name: its proof fits it alone") {
  const auto one = LauncherName::draw(), other = LauncherName::draw();
  CHECK(one.name.base() == "client");
  CHECK(one.name != other.name);
  wire::HelloT hello;
  one.introduce(hello);
  CHECK(hello.peer == one.name.to_string());
  CHECK(is_drawn(one.name, bytes_of(hello.token)));
  CHECK_FALSE(is_drawn(one.name, bytes_of(other.proof)));
  CHECK_FALSE(is_drawn(one.name, {}));
  CHECK_FALSE(is_drawn(*Name::plain("client"), bytes_of(one.proof)));
  auto longer = one.proof;
  longer.push_back(0);
  CHECK_FALSE(is_drawn(one.name, bytes_of(longer)));
}

#include "broker/links/link_fault.h"

#include <doctest/doctest.h>

namespace meshbus {
namespace {

using namespace std::chrono_literals;
using Kind = LinkFault::Kind;

TEST_CASE("link_fault: a cut link and a mute one send nothing until the end") {
  const LinkFault::Time t0{10s};
  for (const auto kind : {Kind::cut, Kind::mute}) {
    LinkFault fault;
    CHECK_FALSE(fault.closed_until(t0).has_value());
    fault.begin({.kind = kind, .end = t0 + 5s});
    CHECK(fault.is_cut(t0) == (kind == Kind::cut));
    CHECK(fault.closed_until(t0) == t0 + 5s);
    CHECK(fault.closed_until(t0 + 4999ms) == t0 + 5s);
    CHECK_FALSE(fault.closed_until(t0 + 5s).has_value());
    CHECK_FALSE(fault.is_cut(t0 + 5s));
    fault.clear();
    CHECK_FALSE(fault.closed_until(t0).has_value());
  }
}

TEST_CASE("link_fault: with a delay, the first message that waits opens the way for all") {
  LinkFault fault;
  const LinkFault::Time t0{10s};
  fault.begin({.kind = Kind::delay, .end = t0 + 5s, .delay = 200ms});
  CHECK_FALSE(fault.is_cut(t0));
  CHECK(fault.closed_until(t0) == t0 + 200ms);
  CHECK(fault.closed_until(t0 + 150ms) == t0 + 200ms);
  CHECK_FALSE(fault.closed_until(t0 + 200ms).has_value());
  CHECK(fault.closed_until(t0 + 201ms) == t0 + 401ms);
  // It is never later than the end.
  CHECK_FALSE(fault.closed_until(t0 + 401ms).has_value());
  CHECK(fault.closed_until(t0 + 4900ms) == t0 + 5s);
  CHECK_FALSE(fault.closed_until(t0 + 5s).has_value());
}

}  // namespace
}  // namespace meshbus

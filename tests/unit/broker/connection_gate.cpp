#include "broker/transport/connection_gate.h"

#include <doctest/doctest.h>

using namespace meshbus;
using namespace std::chrono_literals;

TEST_CASE("connection gate: a network opens so many a second, and others are not held up by it") {
  ConnectionGate gate({.per_second = 10});
  const ConnectionGate::Time begin{100s};
  for (int i = 0; i < 50; ++i) CHECK_FALSE(gate.refuse(5, "10.0.0.1", begin).has_value());
  const auto why = gate.refuse(5, "10.0.0.1", begin);
  REQUIRE(why.has_value());
  CHECK(why->starts_with("10.0.0.1 opens more than connections.rate a second"));
  CHECK_FALSE(gate.refuse(5, "10.0.0.2", begin).has_value());
  // Local peers have no network.
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(gate.refuse(5, "", begin).has_value());
  CHECK_FALSE(gate.refuse(5, "10.0.0.1", begin + 100ms).has_value());
  CHECK(gate.refuse(5, "10.0.0.1", begin + 100ms).has_value());
}

TEST_CASE("connection gate: the last descriptors are kept, from local peers too") {
  ConnectionGate gate({.first_kept = 150});
  const ConnectionGate::Time begin{100s};
  CHECK_FALSE(gate.refuse(149, "", begin).has_value());
  CHECK(gate.refuse(150, "", begin).has_value());
  CHECK(gate.refuse(150, "10.0.0.1", begin).has_value());
}

#pragma once

#include <cstddef>
#include <string>

namespace meshbus::bench {

struct RttOptions {
  int rounds = 5;
  std::size_t count = 5000;
  std::size_t size = 64;
  int cpu = 0;
  std::string json;
};

/// Round trip of one small message between two processes: through a bare ROUTER relay (the floor), and through a real meshbus-broker, in
/// turns, all on one CPU. Prints a table; an exit code.
int run_rtt(const RttOptions& options);

/// The other end, in a process of its own: sends back what it gets until stdin ends.
int run_floor_echo(const std::string& endpoint);
int run_bus_echo(const std::string& endpoint);

}  // namespace meshbus::bench

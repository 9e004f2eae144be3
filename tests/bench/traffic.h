#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tests/bench/comparison.h"
#include "tests/bench/end.h"
#include "tests/bench/middle.h"

/// What pairs of ends do: round trips, and messages in one direction.
namespace meshbus::bench {

/// A way for messages.
struct Way {
  Transport transport;
  Between between;
  /// For messages in one direction: each one leaves on its own.
  bool flush_each = false;
};

/// `count` messages there and back, one after the other, with new processes and sockets: what is
/// random about them is part of the spread. Figures: p50_us, p99_us, p99_over_p50, cpu_us (of what
/// is in between, per message).
Figures round_trips(const Way& way, std::size_t size, std::size_t count);

/// Messages in one direction for so long, a window of them on the way. Figures: per_s, mb_per_s, us
/// (per message), cpu_us as above.
Figures throughput(const Way& way, std::size_t size, std::chrono::milliseconds duration);

/// The other end, in a process of its own (`meshbus-bench end TRANSPORT ADDRESS QUARTER`). Never
/// returns but by an exception.
int run_other_end(Transport transport, const std::string& address, std::size_t quarter);

}  // namespace meshbus::bench

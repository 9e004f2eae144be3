#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>

#include "bench/end.h"

/// What pairs of ends do: round trips, and messages in one direction.
namespace meshbus::bench {

/// CPU time that what is in between has used so far; empty: nobody can tell.
using CpuMeter = std::function<std::chrono::nanoseconds()>;

struct RoundTripFigures {
  double p50_us = 0;
  double p99_us = 0;
  /// Messages, both ways.
  double per_s = 0;
  /// Of what is in between, per message.
  std::optional<double> cpu_us = {};
};
/// `count` messages there and back, one after the other, and more until that time is over; the
/// other end runs answer_all(end, 0).
RoundTripFigures round_trips(End& end, const CpuMeter& cpu, std::size_t size, std::size_t count,
                             std::chrono::milliseconds duration = std::chrono::milliseconds(0));

struct ThroughputFigures {
  double per_s = 0;
  std::optional<double> cpu_us = {};
};
/// Of messages of that size, how many the other end takes before it acknowledges them with an empty
/// one.
std::size_t quarter_of(std::size_t size);
/// Messages in one direction for so long, a window of them on the way; the other end runs
/// answer_all(end, quarter_of(size)).
ThroughputFigures throughput(End& end, const CpuMeter& cpu, std::size_t size,
                             std::chrono::milliseconds duration);

/// The other end: says its name on stdout, then answers every message with itself, or when
/// `quarter` is not 0 every so many of them with an empty one. Never returns but by an exception.
int answer_all(End& end, std::size_t quarter);

}  // namespace meshbus::bench

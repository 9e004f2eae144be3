#include "bench/traffic.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/measured.h"

namespace meshbus::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::size_t kWarmUp = 500;
constexpr std::chrono::milliseconds kWarmUpTime{200};
/// Bytes on the way in one direction: enough that nobody waits for the acknowledgement, and
/// bounded, because relays bound nothing.
constexpr std::size_t kWindowBytes = 4 * 1024 * 1024;
constexpr std::size_t kLeastWindow = 8;
constexpr std::size_t kMostWindow = 32 * 1024;

std::chrono::nanoseconds read(const CpuMeter& cpu) {
  return cpu ? cpu() : std::chrono::nanoseconds(0);
}

std::optional<double> per_message(const CpuMeter& cpu, std::chrono::nanoseconds before,
                                  double count) {
  if (!cpu || count <= 0) return std::nullopt;
  return Microseconds(cpu() - before).count() / count;
}

}  // namespace

std::size_t quarter_of(std::size_t size) {
  return std::clamp(kWindowBytes / std::max<std::size_t>(size, 1), kLeastWindow, kMostWindow) / 4;
}

RoundTripFigures round_trips(End& end, const CpuMeter& cpu, std::size_t size, std::size_t count,
                             std::chrono::milliseconds duration) {
  const auto body = SharedBody::of(std::string(size, 'x'));
  std::vector<double> times;
  times.reserve(count);
  std::size_t warm_up = std::min(kWarmUp, std::max<std::size_t>(count, 1));
  std::chrono::nanoseconds before{};
  bool is_mine = true;
  auto begin = Clock::now();
  auto start = begin;
  end.run({.produce =
               [&] {
                 if (!is_mine) return false;
                 is_mine = false;
                 begin = Clock::now();
                 end.send(body);
                 return false;
               },
           .consume =
               [&](std::string_view) {
                 const auto now = Clock::now();
                 if (warm_up > 0) {
                   if (--warm_up == 0) {
                     before = read(cpu);
                     start = Clock::now();
                   }
                 } else {
                   times.push_back(Microseconds(now - begin).count());
                 }
                 // Nothing leaves after the last: its answer would find nobody.
                 is_mine = times.size() < count || now < start + duration;
                 return is_mine;
               }});
  const Microseconds took = Clock::now() - start;
  const auto messages = static_cast<double>(2 * times.size());
  RoundTripFigures figures{.per_s = messages / took.count() * 1e6,
                           .cpu_us = per_message(cpu, before, messages)};
  figures.p50_us = percentile(times, 50);
  figures.p99_us = percentile(times, 99);
  return figures;
}

ThroughputFigures throughput(End& end, const CpuMeter& cpu, std::size_t size,
                             std::chrono::milliseconds duration) {
  const std::size_t quarter = quarter_of(size), window = 4 * quarter;
  const auto body = SharedBody::of(std::string(size, 'x'));
  std::size_t sent = 0, received = 0, at_start = 0;
  bool has_started = false;
  std::chrono::nanoseconds before{};
  const auto warm = Clock::now() + std::min(kWarmUpTime, duration);
  auto start = warm, stop = warm;
  end.run({.produce =
               [&] {
                 if (sent - received >= window) return false;
                 end.send(body);
                 ++sent;
                 return true;
               },
           .consume =
               [&](std::string_view) {
                 received += quarter;
                 stop = Clock::now();
                 if (!has_started && stop >= warm) {
                   has_started = true;
                   start = stop;
                   at_start = received;
                   before = read(cpu);
                 }
                 return !has_started || stop < start + duration;
               }});
  const auto count = static_cast<double>(received - at_start);
  const Microseconds took = stop - start;
  return {.per_s = count / took.count() * 1e6, .cpu_us = per_message(cpu, before, count)};
}

int answer_all(End& end, std::size_t quarter) {
  std::printf("%s\n", end.name().c_str());
  std::fflush(stdout);
  std::size_t taken = 0;
  end.run({.consume = [&](std::string_view body) {
    if (quarter == 0) {
      end.send(body);
    } else if (++taken % quarter == 0) {
      end.send(std::string_view());
    }
    return true;
  }});
  return 0;
}

}  // namespace meshbus::bench

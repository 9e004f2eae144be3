#include "tests/bench/traffic.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/bench/measured.h"

namespace meshbus::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::size_t kWarmUp = 500;
constexpr std::chrono::milliseconds kWarmUpTime{200};
/// Bytes on the way in one direction: enough that nobody waits for the acknowledgement, and bounded, because relays bound nothing.
constexpr std::size_t kWindowBytes = 4 * 1024 * 1024;
constexpr std::size_t kLeastWindow = 8;
constexpr std::size_t kMostWindow = 32 * 1024;

std::size_t window_of(std::size_t size) {
  return std::clamp(kWindowBytes / std::max<std::size_t>(size, 1), kLeastWindow, kMostWindow);
}

/// What is in between, the other end's process, and this one's end.
struct Line {
  Line(const Way& way, std::size_t quarter)
      : middle(way.between),
        other({own_folder() + "meshbus-bench", "end", std::string(to_string(way.transport)), middle.other_address(),
               std::to_string(quarter)}),
        end(make_end(way.transport, {.address = middle.asker_address(), .other = other.read_line(), .flush_each = way.flush_each})) {}
  Middle middle;
  Child other;
  std::unique_ptr<End> end;
  /// Of both ends and what is between them: what a message costs, whatever else the machine does.
  std::chrono::nanoseconds cpu_of_all() const { return cpu_of(::getpid()) + other.cpu() + middle.cpu(); }
};

}  // namespace

Figures round_trips(End& end, std::size_t size, std::size_t count) {
  const std::string body(size, 'x');
  std::vector<double> times;
  times.reserve(count);
  bool is_mine = true;
  auto begin = Clock::now();
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
                 times.push_back(Microseconds(Clock::now() - begin).count());
                 is_mine = true;
                 return times.size() < count;
               }});
  const double p50 = percentile(times, 50), p99 = percentile(times, 99);
  return {{"p50_us", p50}, {"p99_us", p99}, {"p99_over_p50", p99 / p50}};
}

Figures round_trips(const Way& way, std::size_t size, std::size_t count) {
  Line line({way.transport, way.between, true}, 0);
  round_trips(*line.end, size, kWarmUp);
  const auto cpu = line.middle.cpu();
  Figures figures = round_trips(*line.end, size, count);
  const Microseconds used = line.middle.cpu() - cpu;
  figures["cpu_us"] = used.count() / static_cast<double>(2 * count);
  return figures;
}

Figures throughput(const Way& way, std::size_t size, std::chrono::milliseconds duration) {
  const std::size_t window = window_of(size), quarter = window / 4;
  Line line(way, quarter);
  const std::string body(size, 'x');
  std::size_t sent = 0, received = 0, at_start = 0;
  bool has_started = false;
  std::chrono::nanoseconds cpu{}, cpu_of_all{};
  const auto warm = Clock::now() + kWarmUpTime;
  auto start = warm, end = warm;
  line.end->run({.produce =
                     [&] {
                       if (sent - received >= window) return false;
                       line.end->send(body);
                       ++sent;
                       return true;
                     },
                 .consume =
                     [&](std::string_view) {
                       received += quarter;
                       end = Clock::now();
                       if (!has_started && end >= warm) {
                         has_started = true;
                         start = end;
                         at_start = received;
                         cpu = line.middle.cpu();
                         cpu_of_all = line.cpu_of_all();
                       }
                       return !has_started || end < start + duration;
                     }});
  const double count = static_cast<double>(received - at_start);
  const Microseconds took = end - start, used = line.middle.cpu() - cpu, used_by_all = line.cpu_of_all() - cpu_of_all;
  const double per_s = count / took.count() * 1e6;
  return {{"per_s", per_s},
          {"mb_per_s", per_s * static_cast<double>(size) / 1e6},
          {"us", took.count() / count},
          {"cpu_us", used.count() / count},
          {"cpu_all_us", used_by_all.count() / count}};
}

int run_other_end(Transport transport, const std::string& address, std::size_t quarter) {
  const auto end = make_end(transport, {.address = address, .flush_each = quarter == 0});
  std::printf("%s\n", end->name().c_str());
  std::fflush(stdout);
  std::size_t taken = 0;
  end->run({.consume = [&](std::string_view body) {
    if (quarter == 0) {
      end->send(body);
    } else if (++taken % quarter == 0) {
      end->send({});
    }
    return true;
  }});
  return 0;
}

}  // namespace meshbus::bench

#include "cli/bench/bench_rows.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "bench/child.h"
#include "bench/crowd.h"
#include "bench/end.h"
#include "bench/measured.h"
#include "bench/traffic.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Two ends: one here, one in a process of its own.
struct EndPair {
  EndPair(const BenchMiddle& middle, std::size_t quarter, bool flush)
      : other({bench::own_folder() + "meshbus", "bench", "end", middle.other(),
               std::to_string(quarter)}),
        end(bench::make_bus_end(
            {.address = middle.asker(), .other = other.read_line(), .flush_each = flush}, false)) {}
  bench::Child other;
  std::unique_ptr<bench::End> end;
};

Json number(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Json bench_row(std::size_t size, std::optional<double> p50_us, std::optional<double> p99_us,
               std::optional<double> per_s, std::optional<double> cpu_us) {
  return {{"size", size},
          {"p50_us", number(p50_us)},
          {"p99_us", number(p99_us)},
          {"msgs_per_s", number(per_s)},
          {"bytes_per_s", per_s ? Json(*per_s * static_cast<double>(size)) : Json(nullptr)},
          {"cpu_us_per_msg", number(cpu_us)}};
}

Json measure_rtt(const BenchArguments& arguments, const BenchMiddle& middle, std::size_t size) {
  const EndPair pair(middle, 0, true);
  const auto figures = bench::round_trips(*pair.end, middle.cpu(), size, arguments.count);
  return bench_row(size, figures.p50_us, figures.p99_us, figures.per_s, figures.cpu_us);
}

Json measure_throughput(const BenchArguments& arguments, const BenchMiddle& middle,
                        std::size_t size) {
  const EndPair pair(middle, bench::quarter_of(size), arguments.flush);
  const auto figures = bench::throughput(*pair.end, middle.cpu(), size, arguments.duration);
  return bench_row(size, std::nullopt, std::nullopt, figures.per_s, figures.cpu_us);
}

Json measure_link(const BenchArguments& arguments, const BenchMiddle& middle, std::size_t size) {
  Json both = measure_throughput(arguments, middle, size);
  const Json times = measure_rtt(arguments, middle, size);
  for (const char* field : {"p50_us", "p99_us"}) both[field] = times.at(field);
  return both;
}

Json measure_fanout(const BenchArguments& arguments, const BenchMiddle& middle, std::size_t size) {
  bench::check_descriptors(arguments.peers, middle.pid());
  bench::Crowd crowd({"meshbus", "bench", "crowd"}, middle.asker(), arguments.peers);
  crowd.join();
  const auto figures = bench::fan_out(crowd, middle.asker(), middle.cpu(), size, arguments.count);
  Json one = bench_row(size, figures.p50_us, figures.p99_us, figures.per_s, figures.cpu_us);
  one["peers"] = arguments.peers;
  return one;
}

Json measure_peers(const BenchArguments& arguments, const BenchMiddle& middle) {
  bench::check_descriptors(arguments.peers, middle.pid());
  bench::Crowd crowd({"meshbus", "bench", "crowd"}, middle.asker(), arguments.peers);
  const bool is_known = middle.pid() != 0;
  const std::size_t before = is_known ? bench::memory_of(middle.pid()) : 0;
  const auto cpu = middle.cpu();
  const auto cpu_before = cpu ? cpu() : std::chrono::nanoseconds(0);
  const std::chrono::duration<double> took = crowd.join();
  const auto peers = static_cast<double>(arguments.peers);
  Json one = {{"peers", arguments.peers},        {"processes", crowd.processes()},
              {"seconds", took.count()},         {"handshakes_per_s", peers / took.count()},
              {"cpu_us_per_handshake", nullptr}, {"broker_bytes", nullptr},
              {"bytes_per_peer", nullptr}};
  if (cpu)
    one["cpu_us_per_handshake"] =
        std::chrono::duration<double, std::micro>(cpu() - cpu_before).count() / peers;
  if (is_known) {
    const std::size_t after = bench::memory_of(middle.pid());
    one["broker_bytes"] = after;
    one["bytes_per_peer"] = static_cast<double>(after > before ? after - before : 0) / peers;
  }
  return one;
}

}  // namespace meshbus::cli

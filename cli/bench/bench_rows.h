#pragma once

#include <cstddef>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "cli/bench/bench_arguments.h"
#include "cli/bench/bench_middle.h"

namespace meshbus::cli {

/// A row has the same fields in every benchmark of messages; what it cannot tell is null.
nlohmann::ordered_json bench_row(std::size_t size, std::optional<double> p50_us,
                                 std::optional<double> p99_us, std::optional<double> per_s,
                                 std::optional<double> cpu_us);

// Each measures once and returns its row. They throw std::runtime_error when that cannot be done.

nlohmann::ordered_json measure_rtt(const BenchArguments& arguments, const BenchMiddle& middle,
                                   std::size_t size);
nlohmann::ordered_json measure_throughput(const BenchArguments& arguments,
                                          const BenchMiddle& middle, std::size_t size);
/// Round trips and rate of one link: the times of the former, the rest of the latter.
nlohmann::ordered_json measure_link(const BenchArguments& arguments, const BenchMiddle& middle,
                                    std::size_t size);
nlohmann::ordered_json measure_fanout(const BenchArguments& arguments, const BenchMiddle& middle,
                                      std::size_t size);
nlohmann::ordered_json measure_peers(const BenchArguments& arguments, const BenchMiddle& middle);

}  // namespace meshbus::cli

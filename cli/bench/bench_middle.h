#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/brokers.h"
#include "bench/traffic.h"
#include "cli/bench/bench_arguments.h"

namespace meshbus::cli {

/// The brokers that are measured: our own, or those of running hosts.
class BenchMiddle {
 public:
  /// Throws std::runtime_error when the arguments name no hosts that can be measured.
  explicit BenchMiddle(const BenchArguments& arguments);
  const std::string& asker() const { return endpoints_.front(); }
  const std::string& other() const { return endpoints_.back(); }
  /// 0: not known.
  pid_t pid() const { return pids_.front(); }
  /// The CPU time of the brokers; empty when it cannot be told.
  bench::CpuMeter cpu() const;

 private:
  std::optional<bench::Brokers> brokers_;
  std::vector<std::string> endpoints_;
  std::vector<pid_t> pids_;
};

}  // namespace meshbus::cli

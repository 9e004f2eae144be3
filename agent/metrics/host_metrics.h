#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "agent/metrics/role_report.h"
#include "common/http/metric_set.h"
#include "wire/forward.h"

namespace meshbus::metrics {

/// What a host tells Prometheus. It is fed with what broker, agent and warden report, and no
/// counter goes back when one of them starts again. The number of series depends on no rank, mesh
/// or peer. Lives on one thread.
class HostMetrics {
 public:
  struct Limits {
    std::uint64_t queue_bytes = 0;  ///< Setting queue.bytes.
    std::uint64_t queue_count = 0;  ///< Setting queue.count.
  };
  explicit HostMetrics(Limits limits);

  /// The broker of that incarnation published its counters.
  void on_counters(std::uint64_t incarnation, const wire::BrokerCountersT& counters);
  /// The agent answered, after so long.
  void on_host(const wire::HostStateT& host, std::chrono::nanoseconds took);
  void on_roles(const RoleReport& roles);
  /// Prometheus' text format. `counters_age`: since the last on_counters().
  std::string render(std::chrono::nanoseconds counters_age);

 private:
  void on_queues(const wire::BrokerCountersT& counters);

  http::MetricSet metrics_;
};

}  // namespace meshbus::metrics

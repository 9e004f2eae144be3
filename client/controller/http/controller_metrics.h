#pragma once

#include <cstddef>
#include <string>

#include "client/controller/controller_counts.h"
#include "common/http/metric_set.h"

namespace meshbus {

/// What a controller tells Prometheus. The number of series depends on no rank, mesh or host. Lives
/// on one thread.
class ControllerMetrics {
 public:
  ControllerMetrics();

  void set(const ControllerCounts& counts);
  /// Readers of the page's stream now.
  void set_readers(std::size_t readers);
  std::string render() const { return metrics_.render(); }

 private:
  http::MetricSet metrics_;
};

}  // namespace meshbus

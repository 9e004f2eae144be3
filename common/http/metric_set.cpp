#include "common/http/metric_set.h"

#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace meshbus::http {

struct MetricSet::Registry {
  prometheus::Registry registry;
};

MetricSet::MetricSet() : registry_(std::make_unique<Registry>()) {}

MetricSet::~MetricSet() = default;

// The registry and its families return what they have of the same name and labels.
void MetricSet::set(const Metric& metric, double value, const Labels& labels) {
  prometheus::BuildGauge()
      .Name(metric.name)
      .Help(metric.help)
      .Register(registry_->registry)
      .Add(labels)
      .Set(value);
}

void MetricSet::follow(const Metric& metric, std::uint64_t incarnation, std::uint64_t value,
                       const Labels& labels) {
  Last& last = last_[{metric.name, labels}];
  const bool is_same = incarnation == last.incarnation && value >= last.value;
  const std::uint64_t grown = is_same ? value - last.value : value;
  last = {incarnation, value};
  prometheus::BuildCounter()
      .Name(metric.name)
      .Help(metric.help)
      .Register(registry_->registry)
      .Add(labels)
      .Increment(static_cast<double>(grown));
}

std::string MetricSet::render() const {
  return prometheus::TextSerializer().Serialize(registry_->registry.Collect());
}

}  // namespace meshbus::http

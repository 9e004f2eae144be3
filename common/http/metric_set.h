#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace meshbus::http {

/// The metrics of a process, as Prometheus reads them. Lives on one thread.
class MetricSet {
 public:
  /// Names and values are ours: nothing that came from outside.
  using Labels = std::map<std::string, std::string>;
  struct Metric {
    const char* name;
    const char* help;
  };

  MetricSet();
  ~MetricSet();
  MetricSet(const MetricSet&) = delete;
  MetricSet& operator=(const MetricSet&) = delete;

  /// The value of a gauge.
  void set(const Metric& metric, double value, const Labels& labels = {});
  /// The value of a counter that something else keeps and that starts at 0 with each incarnation of
  /// it. What is rendered only grows. Counts of another process between its last report and its end
  /// are lost.
  void follow(const Metric& metric, std::uint64_t incarnation, std::uint64_t value,
              const Labels& labels = {});
  /// Prometheus' text format, version 0.0.4.
  std::string render() const;

  /// The type of that text.
  static constexpr const char* kType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Last {
    std::uint64_t incarnation = 0;
    std::uint64_t value = 0;
  };
  struct Registry;

  std::unique_ptr<Registry> registry_;
  std::map<std::pair<std::string, Labels>, Last> last_;
};

}  // namespace meshbus::http

#include "tests/bench/traffic.h"

#include "bench/child.h"
#include "bench/traffic.h"

namespace meshbus::bench {

namespace {

/// What is in between, the other end's process, and this one's end.
struct Line {
  Line(const Way& way, std::size_t quarter)
      : middle(way.between),
        other({own_folder() + "meshbus-bench", "end", std::string(to_string(way.transport)),
               middle.other_address(), std::to_string(quarter)}),
        end(make_end(way.transport, {.address = middle.asker_address(),
                                     .other = other.read_line(),
                                     .flush_each = way.flush_each})) {}
  CpuMeter cpu() const {
    return [this] { return middle.cpu(); };
  }
  Middle middle;
  Child other;
  std::unique_ptr<End> end;
  /// The CPU time of both ends and of what is between them: the cost of messages, whatever else the
  /// machine does.
  std::chrono::nanoseconds cpu_of_all() const {
    return cpu_of(::getpid()) + other.cpu() + middle.cpu();
  }
};

}  // namespace

Figures round_trips(const Way& way, std::size_t size, std::size_t count) {
  const Line line({way.transport, way.between, true}, 0);
  const auto figures = round_trips(*line.end, line.cpu(), size, count);
  return {{"p50_us", figures.p50_us},
          {"p99_us", figures.p99_us},
          {"p99_over_p50", figures.p99_us / figures.p50_us},
          {"cpu_us", figures.cpu_us.value_or(0)}};
}

Figures throughput(const Way& way, std::size_t size, std::chrono::milliseconds duration) {
  const Line line(way, quarter_of(size));
  const auto figures = throughput(*line.end, line.cpu(), size, duration);
  return {{"per_s", figures.per_s},
          {"mb_per_s", figures.per_s * static_cast<double>(size) / 1e6},
          {"us", 1e6 / figures.per_s},
          {"cpu_us", figures.cpu_us.value_or(0)}};
}

int run_other_end(Transport transport, const std::string& address, std::size_t quarter) {
  const auto end = make_end(transport, {.address = address, .flush_each = quarter == 0});
  return answer_all(*end, quarter);
}

}  // namespace meshbus::bench

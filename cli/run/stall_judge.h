#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace meshbus::cli {

/// Whether a job stands still: no rank has written anything, used CPU time or told of progress for
/// so long. Pure: it holds no clock.
class StallJudge {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  /// What the host of a rank has seen of it.
  struct Sample {
    std::chrono::system_clock::time_point at;
    std::chrono::microseconds cpu{0};
    /// Its last progress beat.
    std::optional<std::chrono::system_clock::time_point> beat = {};
  };

  StallJudge(Duration limit, Time now) : limit_(limit), sign_at_(now), looked_at_(now) {}

  /// A rank has written something.
  void on_output(Time at);
  /// The last samples, by rank. Less than 1 % of a CPU is no sign of work: timers and heartbeats
  /// need some.
  void on_samples(const std::map<std::uint64_t, Sample>& samples, Time now);
  /// The suspicion was wrong: a thread runs, or waits for a CPU.
  void on_running(Time now) { on_output(now); }

  /// Ask for usage now. A look that comes much later than it should means that we were stopped or
  /// starved ourselves: that time does not count.
  bool is_look_due(Time now);
  Time next_look() const { return looked_at_ + period(); }
  /// Nothing for longer than the limit. True once, until there is a sign again.
  bool is_stalled(Time now);

 private:
  Duration period() const;
  bool is_sign(std::uint64_t rank, const Sample& sample) const;

  Duration limit_;
  Time sign_at_;
  Time looked_at_;
  std::map<std::uint64_t, Sample> samples_;
  bool was_told_ = false;
};

}  // namespace meshbus::cli

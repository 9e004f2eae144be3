#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>

#include "agent/keeper/protocol.h"

namespace meshbus::keeper {

/// Whether this signal makes an ordinary process end.
bool ends_a_process(int signal);

/// Signals to procs in the order in which they were asked for, in waves: terminating 1000 processes
/// at once would starve everything else. The next wave begins when most processes of the last one
/// have ended, or have had time to. Holds and marks keep their place among the signals. Pure: the
/// time is the caller's.
class SignalWaves {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kWaveLimit{2};
  /// More than that do not wait: the rest leaves at once.
  static constexpr std::size_t kMostWaiting = 1u << 14;

  explicit SignalWaves(std::size_t procs_per_wave) : procs_per_wave_(procs_per_wave) {}

  using Entry = std::variant<Signal, Hold, Mark>;

  void add(Entry entry) { waiting_.push_back(entry); }
  bool empty() const noexcept { return waiting_.empty(); }
  /// When the next wave is due at the latest, if something waits.
  Time due() const noexcept { return next_wave_; }
  /// Begins a wave, if one is due. Carry out what next() gives then.
  bool begin(Time now);
  /// The next entry of this wave; nothing: the wave is full, or nothing waits.
  std::optional<Entry> next();
  /// Counts a process that was told to end. `wave`: the last wave in which it was, 0 at first.
  void count(std::uint64_t& wave);
  /// A process has ended that was last told so in `wave`.
  void on_end(std::uint64_t wave);
  /// The kernel has refused a signal for that proc. The first one is told with the next mark.
  void on_refused(std::uint64_t id, int error);
  /// What to answer to a mark that next() gave.
  Signalled answer(Mark mark);

 private:
  std::size_t procs_per_wave_;
  std::deque<Entry> waiting_;
  std::uint64_t wave_ = 0;
  std::size_t left_ = 0;  // processes of this wave that have not ended
  Time next_wave_{};
  Signalled refused_;  // since the last mark
};

}  // namespace meshbus::keeper

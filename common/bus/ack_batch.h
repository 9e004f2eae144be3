#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "wire/frame_generated.h"

namespace meshbus {

/// Counts what a receiver has taken from each source, and makes the acknowledgements. Pure.
class AckBatch {
 public:
  struct Source {
    std::uint64_t proc;
    std::uint64_t host;
    std::uint64_t incarnation;
    bool operator==(const Source&) const = default;
  };
  struct Report {
    Source to;
    std::vector<wire::TakenRun> runs;
  };

  AckBatch();
  /// A message (see is_tracked) is taken. True when so many are not acknowledged that it is time to
  /// report.
  bool take(const wire::Envelope& envelope) {
    const Source source{envelope.source_proc(), envelope.source_host(),
                        envelope.source_incarnation()};
    State& state = last_ != nullptr && last_source_ == source ? *last_ : state_of(source);
    ++taken_;
    if (!state.is_open) {
      begin_run(state, envelope.sequence());
    } else {
      state.open.mutate_last(envelope.sequence() > state.open.last() ? envelope.sequence()
                                                                     : state.open.last());
      state.open.mutate_count(state.open.count() + 1);
    }
    if (state.unacknowledged == 0) unacknowledged_.push_back(source);
    return ++state.unacknowledged >= kMostUnacknowledged;
  }
  /// The acknowledgements that are due; they count as sent.
  std::vector<Report> reports();
  /// The acknowledgement for one source.
  Report report(const Source& source);
  /// A new session: messages of the old one may be lost, so the next one begins a new run.
  /// Everything is acknowledged again.
  void restart();
  /// Messages taken in all.
  std::uint64_t taken() const noexcept { return taken_; }

 private:
  /// After so many of one source it is acknowledged without waiting.
  static constexpr std::uint32_t kMostUnacknowledged = 8192;
  struct State {
    /// The runs of earlier sessions, and the present one.
    std::vector<wire::TakenRun> closed;
    wire::TakenRun open;
    bool is_open = false;
    std::uint32_t unacknowledged = 0;
  };
  struct Hash {
    std::size_t operator()(const Source& source) const noexcept {
      return static_cast<std::size_t>(source.proc ^ (source.host * 0x9e3779b97f4a7c15U) ^
                                      (source.incarnation << 1));
    }
  };
  State& state_of(const Source& source);
  static void begin_run(State& state, std::uint64_t sequence);
  static std::vector<wire::TakenRun> runs_of(const State& state);

  std::unordered_map<Source, State, Hash> states_;
  std::size_t most_states_;
  Source last_source_{0, 0, 0};
  State* last_ = nullptr;
  std::vector<Source> unacknowledged_;
  std::uint64_t taken_ = 0;
};

}  // namespace meshbus

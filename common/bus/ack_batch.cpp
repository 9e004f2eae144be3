#include "common/bus/ack_batch.h"

#include <algorithm>
#include <utility>

namespace meshbus {
namespace {

/// Runs of one source that are remembered: a session that breaks begins another one.
constexpr std::size_t kMostRuns = 4;
/// Sources that are remembered beyond those with something to acknowledge.
constexpr std::size_t kMostIdleSources = 16384;

}  // namespace

AckBatch::AckBatch() : most_states_(kMostIdleSources) {}

AckBatch::State& AckBatch::state_of(const Source& source) {
  if (last_ != nullptr && last_source_ == source) return *last_;
  if (states_.size() >= most_states_) {
    std::erase_if(states_, [](const auto& entry) { return entry.second.unacknowledged == 0; });
    most_states_ = std::max(kMostIdleSources, 2 * states_.size());
  }
  last_source_ = source;
  last_ = &states_[source];
  return *last_;
}

void AckBatch::begin_run(State& state, std::uint64_t sequence) {
  state.open = wire::TakenRun(sequence, sequence, 1);
  state.is_open = true;
}

std::vector<wire::TakenRun> AckBatch::runs_of(const State& state) {
  auto runs = state.closed;
  if (state.is_open) runs.push_back(state.open);
  return runs;
}

std::vector<AckBatch::Report> AckBatch::reports() {
  std::vector<Report> reports;
  for (const Source& source : std::exchange(unacknowledged_, {})) {
    const auto found = states_.find(source);
    if (found == states_.end() || found->second.unacknowledged == 0) continue;
    found->second.unacknowledged = 0;
    reports.push_back({source, runs_of(found->second)});
  }
  return reports;
}

AckBatch::Report AckBatch::report(const Source& source) {
  const auto found = states_.find(source);
  return {source, found == states_.end() ? std::vector<wire::TakenRun>() : runs_of(found->second)};
}

void AckBatch::restart() {
  for (auto& [source, state] : states_) {
    if (state.is_open) {
      if (state.closed.size() + 1 == kMostRuns) state.closed.erase(state.closed.begin());
      state.closed.push_back(state.open);
      state.is_open = false;
    }
    if (state.unacknowledged++ == 0) unacknowledged_.push_back(source);
  }
}

}  // namespace meshbus

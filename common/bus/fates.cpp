#include "common/bus/fates.h"

#include <algorithm>

#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// Of one source that are remembered: a session that breaks begins another.
constexpr std::size_t kMostRuns = 4;
/// Senders and receivers that are remembered beyond those with something open.
constexpr std::size_t kMostIdle = 16384;

}  // namespace

SentFates::SentFates(std::size_t limit) : limit_(limit), most_flows_(kMostIdle) {}

SentFates::Flow* SentFates::find(const Receiver& receiver) {
  const auto found = flows_.find(receiver);
  return found == flows_.end() ? nullptr : &found->second;
}

SentFates::Flow& SentFates::flow_of(const Receiver& receiver) {
  if (last_ != nullptr && last_receiver_ == receiver) return *last_;
  if (flows_.size() >= most_flows_) forget_idle();
  last_receiver_ = receiver;
  last_ = &flows_[receiver];
  return *last_;
}

void SentFates::forget_idle() {
  last_ = nullptr;
  std::erase_if(flows_, [](const auto& entry) {
    return entry.second.entries.size() == 0 && entry.second.asked_end == 0;
  });
  most_flows_ = std::max(kMostIdle, 2 * flows_.size());
}

void SentFates::Ring::grow() {
  std::vector<Entry> larger(slots_.empty() ? 16 : 2 * slots_.size());
  for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
  slots_ = std::move(larger);
  head_ = 0;
}

void SentFates::Ring::erase(std::size_t index) noexcept {
  // What comes back mostly does so in order: few are in front of it.
  if (index < size_ / 2) {
    for (; index > 0; --index) (*this)[index] = (*this)[index - 1];
    return pop_front(1);
  }
  for (; index + 1 < size_; ++index) (*this)[index] = (*this)[index + 1];
  --size_;
}

std::size_t SentFates::Ring::count_below(std::uint64_t sequence) noexcept {
  std::size_t low = 0, high = size_;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if ((*this)[middle].sequence < sequence) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void SentFates::add_first(Flow& flow, const wire::Envelope& envelope) {
  if (flow.is_ignored) {
    ++totals_.ignored;
    return;
  }
  flow.silent_intervals = 0;
  if (flow.begin == 0) flow.begin = envelope.sequence();
  flow.entries.push_back(Entry(envelope));
  ++count_;
}

bool SentFates::remove(const Receiver& to, const wire::Envelope& envelope, bool is_unknown) {
  Flow* flow = find(to);
  if (flow == nullptr) return false;
  if (flow->is_ignored) return true;
  const std::size_t at = flow->entries.count_below(envelope.sequence());
  if (at == flow->entries.size() || flow->entries[at].sequence != envelope.sequence()) return false;
  flow->entries.erase(at);
  --count_;
  ++(is_unknown ? totals_.unknown : totals_.returned);
  return true;
}

std::vector<SentFates::Receiver> SentFates::holders(std::uint64_t sequence) {
  std::vector<Receiver> holders;
  for (auto& [receiver, flow] : flows_) {
    const std::size_t at = flow.entries.count_below(sequence);
    if (at < flow.entries.size() && flow.entries[at].sequence == sequence)
      holders.push_back(receiver);
  }
  return holders;
}

void SentFates::tell_until(const Receiver& to, Flow& flow, std::uint64_t end, const Tell& tell) {
  // Whoever is told may send again.
  std::vector<Entry> told(flow.entries.count_below(end));
  for (std::size_t i = 0; i < told.size(); ++i) told[i] = flow.entries[i];
  if (!told.empty()) flow.entries.pop_front(told.size());
  count_ -= told.size();
  totals_.unknown += told.size();
  for (const Entry& entry : told) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(to.proc);
    envelope.mutate_destination_host(to.host);
    envelope.mutate_sequence(entry.sequence);
    envelope.mutate_length(entry.length_and_kind >> 8);
    envelope.mutate_port(entry.port);
    envelope.mutate_kind(static_cast<wire::Kind>(entry.length_and_kind & 0xff));
    envelope.mutate_lane(wire::Lane::data);
    tell(envelope);
  }
}

void SentFates::on_taken(const Receiver& from, const std::vector<wire::TakenRun>& runs,
                         const Tell& tell) {
  for (const wire::TakenRun& run : runs) {
    Flow* flow = find(from);
    if (flow == nullptr || run.last() <= flow->settled) continue;
    flow->silent_intervals = 0;
    if (run.first() != flow->run_first) {
      // What was sent before it and is not taken does not come any more: messages keep their order.
      tell_until(from, *flow, run.first(), tell);
      flow = find(from);
      if (flow == nullptr) continue;
      flow->run_first = run.first();
      flow->run_count = 0;
    }
    const std::size_t outstanding =
        run.last() == UINT64_MAX ? flow->entries.size() : flow->entries.count_below(run.last() + 1);
    // Of a run that began before our memory of it nobody can say how many were counted then.
    const bool is_known = run.first() >= flow->begin || flow->run_count > 0;
    const bool are_all_taken = !is_known || run.count() - flow->run_count >= outstanding;
    flow->run_count = run.count();
    flow->settled = run.last();
    if (!are_all_taken) {
      // Some are missing, and were not told of (the return of one was lost, say): which ones they
      // are is not known.
      tell_until(from, *flow, run.last() == UINT64_MAX ? run.last() : run.last() + 1, tell);
      continue;
    }
    if (outstanding > 0) flow->entries.pop_front(outstanding);
    count_ -= outstanding;
    totals_.taken += outstanding;
  }
}

void SentFates::settle(const Receiver& to, std::uint64_t end, const Tell& tell) {
  if (Flow* flow = find(to)) tell_until(to, *flow, end, tell);
}

void SentFates::ignore(const Receiver& to) {
  Flow& flow = flow_of(to);
  flow.is_ignored = true;
  count_ -= flow.entries.size();
  totals_.ignored += flow.entries.size();
  flow.entries = Ring();
}

std::vector<SentFates::Receiver> SentFates::silent() {
  std::vector<Receiver> silent;
  for (auto& [receiver, flow] : flows_) {
    if (flow.entries.size() > 0 && flow.asked_end == 0 && ++flow.silent_intervals >= 2)
      silent.push_back(receiver);
  }
  return silent;
}

std::vector<SentFates::Receiver> SentFates::owing() const {
  std::vector<Receiver> owing;
  for (const auto& [receiver, flow] : flows_) {
    if (flow.entries.size() > 0) owing.push_back(receiver);
  }
  return owing;
}

void SentFates::on_asked(const Receiver& receiver, std::uint64_t end) {
  flow_of(receiver).asked_end = end;
}

void SentFates::lower_asked(std::uint64_t end) {
  for (auto& [receiver, flow] : flows_) flow.asked_end = std::min(flow.asked_end, end);
}

std::uint64_t SentFates::take_asked(const Receiver& receiver) {
  Flow* flow = find(receiver);
  if (flow == nullptr) return 0;
  flow->silent_intervals = 0;
  return std::exchange(flow->asked_end, 0);
}

TakenCounts::TakenCounts() : most_states_(kMostIdle) {}

TakenCounts::State& TakenCounts::state_of(const Source& source) {
  if (last_ != nullptr && last_source_ == source) return *last_;
  if (states_.size() >= most_states_) {
    std::erase_if(states_, [](const auto& entry) { return entry.second.unsaid == 0; });
    most_states_ = std::max(kMostIdle, 2 * states_.size());
  }
  last_source_ = source;
  last_ = &states_[source];
  return *last_;
}

void TakenCounts::begin_run(State& state, std::uint64_t sequence) {
  state.open = wire::TakenRun(sequence, sequence, 1);
  state.is_open = true;
}

std::vector<wire::TakenRun> TakenCounts::runs_of(const State& state) {
  auto runs = state.closed;
  if (state.is_open) runs.push_back(state.open);
  return runs;
}

std::vector<TakenCounts::Report> TakenCounts::reports() {
  std::vector<Report> reports;
  for (const Source& source : std::exchange(unsaid_, {})) {
    const auto found = states_.find(source);
    if (found == states_.end() || found->second.unsaid == 0) continue;
    found->second.unsaid = 0;
    reports.push_back({source, runs_of(found->second)});
  }
  return reports;
}

TakenCounts::Report TakenCounts::report(const Source& source) {
  const auto found = states_.find(source);
  return {source, found == states_.end() ? std::vector<wire::TakenRun>() : runs_of(found->second)};
}

void TakenCounts::restart() {
  for (auto& [source, state] : states_) {
    if (state.is_open) {
      if (state.closed.size() + 1 == kMostRuns) state.closed.erase(state.closed.begin());
      state.closed.push_back(state.open);
      state.is_open = false;
    }
    if (state.unsaid++ == 0) unsaid_.push_back(source);
  }
}

}  // namespace meshbus

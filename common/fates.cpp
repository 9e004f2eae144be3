#include "common/fates.h"

#include <algorithm>

#include "common/frame.h"

namespace meshbus {
namespace {

/// A receiver that has taken so many of one source says so without waiting.
constexpr std::uint32_t kMostUnsaid = 8192;
/// Of one source that are remembered: a session that breaks begins another.
constexpr std::size_t kMostRuns = 4;
/// Senders and receivers that are remembered beyond those with something open.
constexpr std::size_t kMostIdle = 16384;

}  // namespace

bool has_fate(const wire::Envelope& envelope) noexcept {
  return envelope.lane() == wire::Lane::data && envelope.kind() != wire::Kind::control && envelope.kind() != wire::Kind::call &&
         (envelope.flags() & kFlagNoReturn) == 0;
}

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
  std::erase_if(flows_, [](const auto& entry) { return entry.second.entries.empty() && entry.second.asked_end == 0; });
  most_flows_ = std::max(kMostIdle, 2 * flows_.size());
}

void SentFates::add(const Receiver& to, const wire::Envelope& envelope) {
  Flow& flow = flow_of(to);
  ++totals_.sent;
  if (flow.is_ignored) {
    ++totals_.ignored;
    return;
  }
  if (flow.entries.empty()) {
    flow.silent_intervals = 0;
    if (flow.begin == 0) flow.begin = envelope.sequence();
  }
  flow.entries.push_back({envelope.sequence(), envelope.length(), envelope.port(), envelope.flags(), envelope.kind()});
  ++count_;
}

bool SentFates::remove(const Receiver& to, const wire::Envelope& envelope, bool is_unknown) {
  Flow* flow = find(to);
  if (flow == nullptr) return false;
  if (flow->is_ignored) return true;
  const auto at = std::lower_bound(flow->entries.begin(), flow->entries.end(), envelope.sequence(),
                                   [](const Entry& entry, std::uint64_t sequence) { return entry.sequence < sequence; });
  if (at == flow->entries.end() || at->sequence != envelope.sequence()) return false;
  flow->entries.erase(at);
  --count_;
  ++(is_unknown ? totals_.unknown : totals_.returned);
  return true;
}

void SentFates::tell_until(const Receiver& to, Flow& flow, std::uint64_t end, const Tell& tell) {
  // Whoever is told may send again.
  std::vector<Entry> told;
  while (!flow.entries.empty() && flow.entries.front().sequence < end) {
    told.push_back(flow.entries.front());
    flow.entries.pop_front();
  }
  count_ -= told.size();
  totals_.unknown += told.size();
  for (const Entry& entry : told) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(to.proc);
    envelope.mutate_destination_host(to.host);
    envelope.mutate_sequence(entry.sequence);
    envelope.mutate_length(entry.length);
    envelope.mutate_port(entry.port);
    envelope.mutate_flags(entry.flags);
    envelope.mutate_kind(entry.kind);
    envelope.mutate_lane(wire::Lane::data);
    tell(envelope);
  }
}

void SentFates::on_taken(const Receiver& from, const std::vector<wire::TakenRun>& runs, const Tell& tell) {
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
    std::uint64_t outstanding = 0;
    for (const Entry& entry : flow->entries) {
      if (entry.sequence > run.last()) break;
      ++outstanding;
    }
    // Of a run that began before our memory of it nobody can say how many were counted then.
    const bool is_known = run.first() >= flow->begin || flow->run_count > 0;
    const bool are_all_taken = !is_known || run.count() - flow->run_count >= outstanding;
    flow->run_count = run.count();
    flow->settled = run.last();
    if (!are_all_taken) {
      // Some are missing, and were not told of (the return of one was lost, say): which ones they are is not known.
      tell_until(from, *flow, run.last() + 1, tell);
      continue;
    }
    flow->entries.erase(flow->entries.begin(), flow->entries.begin() + static_cast<std::ptrdiff_t>(outstanding));
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
  flow.entries.clear();
}

std::vector<SentFates::Receiver> SentFates::silent() {
  std::vector<Receiver> silent;
  for (auto& [receiver, flow] : flows_) {
    if (!flow.entries.empty() && flow.asked_end == 0 && ++flow.silent_intervals >= 2) silent.push_back(receiver);
  }
  return silent;
}

std::vector<SentFates::Receiver> SentFates::owing() const {
  std::vector<Receiver> owing;
  for (const auto& [receiver, flow] : flows_) {
    if (!flow.entries.empty()) owing.push_back(receiver);
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

bool TakenCounts::take(const wire::Envelope& envelope) {
  State& state = state_of({envelope.source_proc(), envelope.source_host(), envelope.source_incarnation()});
  ++taken_;
  const auto sequence = envelope.sequence();
  if (!state.is_open || state.runs.empty()) {
    if (state.runs.size() == kMostRuns) state.runs.erase(state.runs.begin());
    state.runs.emplace_back(sequence, sequence, 1);
    state.is_open = true;
  } else {
    wire::TakenRun& run = state.runs.back();
    run.mutate_last(std::max(run.last(), sequence));
    run.mutate_count(run.count() + 1);
  }
  if (state.unsaid++ == 0) unsaid_.push_back(last_source_);
  return state.unsaid >= kMostUnsaid;
}

std::vector<TakenCounts::Report> TakenCounts::reports() {
  std::vector<Report> reports;
  for (const Source& source : std::exchange(unsaid_, {})) {
    const auto found = states_.find(source);
    if (found == states_.end() || found->second.unsaid == 0) continue;
    found->second.unsaid = 0;
    reports.push_back({source, found->second.runs});
  }
  return reports;
}

TakenCounts::Report TakenCounts::report(const Source& source) {
  const auto found = states_.find(source);
  return {source, found == states_.end() ? std::vector<wire::TakenRun>() : found->second.runs};
}

void TakenCounts::restart() {
  for (auto& [source, state] : states_) {
    state.is_open = false;
    if (state.unsaid++ == 0) unsaid_.push_back(source);
  }
}

}  // namespace meshbus

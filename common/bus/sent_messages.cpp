#include "common/bus/sent_messages.h"

#include <algorithm>

#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// Receivers that are remembered beyond those with something outstanding.
constexpr std::size_t kMostIdleReceivers = 16384;

}  // namespace

SentMessages::SentMessages(std::size_t limit) : limit_(limit), most_flows_(kMostIdleReceivers) {}

SentMessages::Flow* SentMessages::find(const Receiver& receiver) {
  const auto found = flows_.find(receiver);
  return found == flows_.end() ? nullptr : &found->second;
}

SentMessages::Flow& SentMessages::flow_of(const Receiver& receiver) {
  if (last_ != nullptr && last_receiver_ == receiver) return *last_;
  if (flows_.size() >= most_flows_) forget_idle();
  last_receiver_ = receiver;
  last_ = &flows_[receiver];
  return *last_;
}

void SentMessages::forget_idle() {
  last_ = nullptr;
  std::erase_if(flows_, [](const auto& entry) {
    return entry.second.entries.size() == 0 && entry.second.asked_end == 0;
  });
  most_flows_ = std::max(kMostIdleReceivers, 2 * flows_.size());
}

void SentMessages::Ring::grow() {
  std::vector<Entry> larger(slots_.empty() ? 16 : 2 * slots_.size());
  for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
  slots_ = std::move(larger);
  head_ = 0;
}

void SentMessages::Ring::erase(std::size_t index) noexcept {
  // Messages mostly come back in order, so few are in front of it.
  if (index < size_ / 2) {
    for (; index > 0; --index) (*this)[index] = (*this)[index - 1];
    return pop_front(1);
  }
  for (; index + 1 < size_; ++index) (*this)[index] = (*this)[index + 1];
  --size_;
}

std::size_t SentMessages::Ring::count_below(std::uint64_t sequence) noexcept {
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

void SentMessages::add_first(Flow& flow, const wire::Envelope& envelope) {
  if (flow.is_ignored) {
    ++totals_.ignored;
    return;
  }
  flow.silent_intervals = 0;
  if (flow.begin == 0) flow.begin = envelope.sequence();
  flow.entries.push_back(Entry(envelope));
  ++count_;
}

bool SentMessages::remove(const Receiver& to, const wire::Envelope& envelope, bool is_unknown) {
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

std::vector<SentMessages::Receiver> SentMessages::holders(std::uint64_t sequence) {
  std::vector<Receiver> holders;
  for (auto& [receiver, flow] : flows_) {
    const std::size_t at = flow.entries.count_below(sequence);
    if (at < flow.entries.size() && flow.entries[at].sequence == sequence)
      holders.push_back(receiver);
  }
  return holders;
}

void SentMessages::tell_until(const Receiver& to, Flow& flow, std::uint64_t end, const Tell& tell) {
  // A copy: `tell` may send again.
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

void SentMessages::on_taken(const Receiver& from, const std::vector<wire::TakenRun>& runs,
                            const Tell& tell) {
  for (const wire::TakenRun& run : runs) {
    Flow* flow = find(from);
    if (flow == nullptr || run.last() <= flow->settled) continue;
    flow->silent_intervals = 0;
    if (run.first() != flow->run_first) {
      // Messages keep their order: those that were sent before the run are lost.
      tell_until(from, *flow, run.first(), tell);
      flow = find(from);
      if (flow == nullptr) continue;
      flow->run_first = run.first();
      flow->run_count = 0;
    }
    const std::size_t outstanding =
        run.last() == UINT64_MAX ? flow->entries.size() : flow->entries.count_below(run.last() + 1);
    // When the run began before our memory of it, the number that it counted then is not known.
    const bool is_known = run.first() >= flow->begin || flow->run_count > 0;
    const bool are_all_taken = !is_known || run.count() - flow->run_count >= outstanding;
    flow->run_count = run.count();
    flow->settled = run.last();
    if (!are_all_taken) {
      // Some are missing and were not reported (their return was lost, say); which ones is not
      // known.
      tell_until(from, *flow, run.last() == UINT64_MAX ? run.last() : run.last() + 1, tell);
      continue;
    }
    if (outstanding > 0) flow->entries.pop_front(outstanding);
    count_ -= outstanding;
    totals_.taken += outstanding;
  }
}

void SentMessages::settle(const Receiver& to, std::uint64_t end, const Tell& tell) {
  if (Flow* flow = find(to)) tell_until(to, *flow, end, tell);
}

void SentMessages::ignore(const Receiver& to) {
  Flow& flow = flow_of(to);
  flow.is_ignored = true;
  count_ -= flow.entries.size();
  totals_.ignored += flow.entries.size();
  flow.entries = Ring();
}

std::vector<SentMessages::Receiver> SentMessages::silent() {
  std::vector<Receiver> silent;
  for (auto& [receiver, flow] : flows_) {
    if (flow.entries.size() > 0 && flow.asked_end == 0 && ++flow.silent_intervals >= 2)
      silent.push_back(receiver);
  }
  return silent;
}

std::vector<SentMessages::Receiver> SentMessages::owing() const {
  std::vector<Receiver> owing;
  for (const auto& [receiver, flow] : flows_) {
    if (flow.entries.size() > 0) owing.push_back(receiver);
  }
  return owing;
}

void SentMessages::on_asked(const Receiver& receiver, std::uint64_t end) {
  flow_of(receiver).asked_end = end;
}

void SentMessages::lower_asked(std::uint64_t end) {
  for (auto& [receiver, flow] : flows_) flow.asked_end = std::min(flow.asked_end, end);
}

std::uint64_t SentMessages::take_asked(const Receiver& receiver) {
  Flow* flow = find(receiver);
  if (flow == nullptr) return 0;
  flow->silent_intervals = 0;
  return std::exchange(flow->asked_end, 0);
}

}  // namespace meshbus

#include "client/controller/report_queue.h"

#include <algorithm>
#include <utility>

#include "wire/supervision_generated.h"

namespace meshbus {

void ReportQueue::add_end(WatchEvent event, Time now) {
  const auto rank = event.rank.rank();
  release(rank);
  ++held_on_[event.host];
  held_.emplace(rank, Held{std::move(event), now, now + kCertificateAsk});
}

ReportQueue::HeldEnds::iterator ReportQueue::move_to(std::vector<WatchEvent>& events, HeldEnds::iterator entry) {
  const auto count = held_on_.find(entry->second.event.host);
  if (--count->second == 0) held_on_.erase(count);
  events.push_back(std::move(entry->second.event));
  return held_.erase(entry);
}

void ReportQueue::release(std::uint64_t rank) {
  const auto found = held_.find(rank);
  if (found == held_.end()) return;
  if (found->second.event.certificate == nullptr) released_[rank].push_back(changes_.size());
  move_to(changes_, found);
}

void ReportQueue::certify(std::uint64_t rank, const std::shared_ptr<const wire::CertificateT>& certificate) {
  if (const auto held = held_.find(rank); held != held_.end() && held->second.event.certificate == nullptr) {
    held->second.event.certificate = certificate;
    return;
  }
  const auto past = released_.find(rank);
  if (past == released_.end()) return;
  changes_[past->second.back()].certificate = certificate;
  past->second.pop_back();
  if (past->second.empty()) released_.erase(past);
}

ReportQueue::Reports ReportQueue::take(Time now) {
  Reports reports;
  reports.events = std::exchange(changes_, {});
  released_.clear();
  const auto first_end = static_cast<std::ptrdiff_t>(reports.events.size());
  for (auto entry = held_.begin(); entry != held_.end();) {
    auto& held = entry->second;
    if (held.event.certificate != nullptr || now >= held.noticed + kCertificateLimit) {
      entry = move_to(reports.events, entry);
      continue;
    }
    if (now >= held.ask) {
      reports.ask.insert(held.event.host);
      held.ask = now + kAskAgain;
    }
    ++entry;
  }
  std::stable_sort(reports.events.begin() + first_end, reports.events.end(), is_earlier_end);
  for (auto& event : reports.events) event.generation = ++generation_;
  return reports;
}

std::optional<ReportQueue::Time> ReportQueue::next_due() const {
  std::optional<Time> next;
  for (const auto& [rank, held] : held_) {
    const auto due = std::min(held.ask, held.noticed + kCertificateLimit);
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

bool ReportQueue::complete(bool is_complete) noexcept {
  return !std::exchange(is_complete_, is_complete) && is_complete;
}

void ReportQueue::sort(std::vector<WatchEvent>& events) {
  const auto ends = std::stable_partition(events.begin(), events.end(), [](const WatchEvent& event) {
    return event.kind != WatchEvent::Kind::state || !is_terminal(event.rank.state());
  });
  std::stable_sort(ends, events.end(), is_earlier_end);
}

}  // namespace meshbus

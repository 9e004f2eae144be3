#include "client/controller/report_queue.h"

#include <algorithm>
#include <utility>

#include "wire/supervision_generated.h"

namespace meshbus {

void ReportQueue::add_end(WatchEvent event, Time now) {
  const auto rank = event.rank.rank();
  release(rank);
  ++held_on_[event.host];
  held_.emplace(rank, Held{std::move(event), now, now + kExitReportAsk});
}

ReportQueue::HeldEnds::iterator ReportQueue::move_to(std::vector<WatchEvent>& events,
                                                     HeldEnds::iterator entry) {
  const auto count = held_on_.find(entry->second.event.host);
  if (--count->second == 0) held_on_.erase(count);
  events.push_back(std::move(entry->second.event));
  return held_.erase(entry);
}

void ReportQueue::release(std::uint64_t rank) {
  const auto found = held_.find(rank);
  if (found == held_.end()) return;
  if (found->second.event.exit_report == nullptr) released_[rank].push_back(changes_.size());
  move_to(changes_, found);
}

void ReportQueue::report_exit(std::uint64_t rank,
                              const std::shared_ptr<const wire::ExitReportT>& exit_report) {
  if (const auto held = held_.find(rank);
      held != held_.end() && held->second.event.exit_report == nullptr) {
    held->second.event.exit_report = exit_report;
    return;
  }
  const auto past = released_.find(rank);
  if (past == released_.end()) return;
  changes_[past->second.back()].exit_report = exit_report;
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
    if (held.event.exit_report != nullptr || now >= held.noticed + kExitReportLimit) {
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
    const auto due = std::min(held.ask, held.noticed + kExitReportLimit);
    next = next ? std::min(*next, due) : due;
  }
  return next;
}

bool ReportQueue::complete(bool is_complete) noexcept {
  return !std::exchange(is_complete_, is_complete) && is_complete;
}

void ReportQueue::sort(std::vector<WatchEvent>& events) {
  const auto ends =
      std::stable_partition(events.begin(), events.end(), [](const WatchEvent& event) {
        return event.kind != WatchEvent::Kind::state || !is_terminal(event.rank.state());
      });
  std::stable_sort(ends, events.end(), is_earlier_end);
}

}  // namespace meshbus

#include "broker/peers/watch_list.h"

#include <algorithm>

namespace meshbus {

bool WatchList::add(std::uint64_t proc, const Watcher& watcher) {
  if (const auto found = watched_.find(proc); found != watched_.end()) {
    const auto same =
        std::find_if(found->second.begin(), found->second.end(), [&](const Watcher& one) {
          return one.proc == watcher.proc && one.host == watcher.host &&
                 one.incarnation == watcher.incarnation && one.watched == watcher.watched;
        });
    if (same != found->second.end()) {
      same->request = watcher.request;
      return true;
    }
  }
  if (size_ == limit_) return false;
  if (const auto by = watched_by_.find(watcher.proc);
      by != watched_by_.end() && by->second.size() >= watcher_limit_ && !by->second.contains(proc))
    return false;
  watched_[proc].push_back(watcher);
  watched_by_[watcher.proc].insert(proc);
  ++size_;
  return true;
}

std::vector<WatchList::Watcher> WatchList::take(std::uint64_t proc, std::uint64_t incarnation) {
  const auto found = watched_.find(proc);
  if (found == watched_.end()) return {};
  auto& all = found->second;
  const auto others = std::stable_partition(
      all.begin(), all.end(), [&](const Watcher& one) { return one.watched == incarnation; });
  const std::vector<Watcher> watchers(all.begin(), others);
  all.erase(all.begin(), others);
  size_ -= watchers.size();
  for (const Watcher& one : watchers) {
    if (std::any_of(all.begin(), all.end(),
                    [&](const Watcher& other) { return other.proc == one.proc; }))
      continue;
    const auto by = watched_by_.find(one.proc);
    if (by == watched_by_.end()) continue;
    by->second.erase(proc);
    if (by->second.empty()) watched_by_.erase(by);
  }
  if (all.empty()) watched_.erase(found);
  return watchers;
}

void WatchList::forget(std::uint64_t watcher_proc, std::uint64_t watcher_incarnation) {
  const auto by = watched_by_.find(watcher_proc);
  if (by == watched_by_.end()) return;
  const auto procs = std::move(by->second);
  watched_by_.erase(by);
  for (const std::uint64_t proc : procs) {
    const auto found = watched_.find(proc);
    if (found == watched_.end()) continue;
    size_ -= std::erase_if(found->second, [&](const Watcher& one) {
      return one.proc == watcher_proc && one.incarnation == watcher_incarnation;
    });
    // Another incarnation of the same watcher stays.
    for (const Watcher& one : found->second) {
      if (one.proc == watcher_proc) watched_by_[watcher_proc].insert(proc);
    }
    if (found->second.empty()) watched_.erase(found);
  }
}

}  // namespace meshbus

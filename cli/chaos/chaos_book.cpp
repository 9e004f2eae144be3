#include "cli/chaos/chaos_book.h"

#include <algorithm>
#include <utility>

namespace meshbus::cli {
namespace {

using Type = ChaosTarget::Type;

/// Clocks that both are of one host count milliseconds, and a role is disturbed a bit later than
/// its host says.
constexpr std::chrono::milliseconds kSlack{20};

bool is_about(const ChaosNotice& notice, const ChaosTarget& target) {
  switch (target.type) {
    case Type::rank: return notice.mesh == target.mesh && notice.rank == target.rank;
    case Type::role:
      return notice.host == target.host && !notice.rank && !notice.peer &&
             (notice.role.empty() || notice.role == target.role);
    case Type::link: {
      if (!target.peer) return false;
      const bool is_end = notice.host == target.host || notice.host == *target.peer;
      return is_end && notice.peer && (*notice.peer == target.host || *notice.peer == *target.peer);
    }
    case Type::disk: return false;
  }
  return false;
}

}  // namespace

std::size_t ChaosBook::add(ChaosDeed deed, Time now) {
  entries_.push_back({.deed = std::move(deed), .asked = now});
  return entries_.size() - 1;
}

void ChaosBook::confirm(std::size_t number, const HostAddr& host, Time began,
                        const std::string& detail) {
  Entry& entry = entries_[number];
  entry.is_confirmed = true;
  if (host == entry.deed.target.host) entry.began = began;
  entry.detail += (entry.detail.empty() ? "" : "; ") + detail;
}

void ChaosBook::fail(std::size_t number, std::string error) {
  entries_[number].error = std::move(error);
}

void ChaosBook::add(ChaosNotice notice) {
  notices_.push_back(std::move(notice));
}

std::chrono::milliseconds ChaosBook::between(const Entry& entry, const ChaosNotice& notice) {
  // Two times of one clock, if there are.
  const bool is_same_clock = notice.time && entry.began && notice.host == entry.deed.target.host;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      is_same_clock ? *notice.time - *entry.began : notice.seen - entry.asked);
}

std::optional<std::size_t> ChaosBook::find(const ChaosNotice& notice) const {
  for (auto i = entries_.size(); i-- > 0;) {
    const auto& entry = entries_[i];
    if (entry.is_confirmed && is_about(notice, entry.deed.target) &&
        between(entry, notice) >= -kSlack)
      return i;
  }
  return std::nullopt;
}

std::vector<ChaosBook::Entry> ChaosBook::entries() const {
  auto all = entries_;
  for (const auto& notice : notices_) {
    const auto found = find(notice);
    if (!found) continue;
    auto& entry = all[*found];
    entry.heard.push_back({std::max(between(entry, notice), std::chrono::milliseconds(0)), notice});
  }
  for (auto& entry : all)
    std::stable_sort(entry.heard.begin(), entry.heard.end(),
                     [](const Heard& a, const Heard& b) { return a.after < b.after; });
  return all;
}

std::vector<ChaosNotice> ChaosBook::others() const {
  std::vector<ChaosNotice> others;
  for (const auto& notice : notices_) {
    if (!find(notice)) others.push_back(notice);
  }
  return others;
}

}  // namespace meshbus::cli

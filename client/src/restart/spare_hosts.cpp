#include "client/src/restart/spare_hosts.h"

#include <algorithm>

namespace meshbus {

void SpareHosts::lose(const HostAddr& host, const std::string& reason, bool is_proved, Time now) {
  const auto [loss, is_new] = losses_.try_emplace(host);
  if (is_new) {
    loss->second.reason = reason;
    loss->second.clear_at = silence_ ? now + *silence_ : Time::max();
  }
  if (is_proved) loss->second.clear_at = std::min(loss->second.clear_at, now);
  for (auto& [lost, other] : losses_) {
    if (other.is_placed || other.spare != host) continue;
    other.spare.reset();
    other.is_confirmed = false;
  }
}

std::string SpareHosts::reason_of(const HostAddr& host) const {
  const auto found = losses_.find(host);
  return found == losses_.end() ? std::string() : found->second.reason;
}

SpareHosts::Time SpareHosts::clear_at(const HostAddr& host) const {
  const auto found = losses_.find(host);
  return found == losses_.end() ? Time::min() : found->second.clear_at;
}

void SpareHosts::want(const HostAddr& lost) {
  if (const auto found = losses_.find(lost); found != losses_.end()) found->second.is_wanted = true;
}

std::optional<HostAddr> SpareHosts::next() const {
  for (const auto& spare : spares_) {
    if (!is_lost(spare) && !taken_.contains(spare)) return spare;
  }
  return std::nullopt;
}

bool SpareHosts::has_hope(const HostAddr& lost) const {
  const auto found = losses_.find(lost);
  return next() || (found != losses_.end() && found->second.spare);
}

std::vector<SpareHosts::Pair> SpareHosts::take_questions() {
  std::vector<Pair> pairs;
  for (auto& [lost, loss] : losses_) {
    if (!loss.is_wanted || loss.is_placed || loss.spare) continue;
    loss.spare = next();
    if (!loss.spare) break;
    taken_.insert(*loss.spare);
    pairs.emplace_back(lost, *loss.spare);
  }
  return pairs;
}

void SpareHosts::confirm(const Pair& pair) {
  const auto found = losses_.find(pair.first);
  if (found != losses_.end() && found->second.spare == pair.second)
    found->second.is_confirmed = true;
}

void SpareHosts::reject(const Pair& pair) {
  const auto found = losses_.find(pair.first);
  if (found == losses_.end() || found->second.is_placed || found->second.spare != pair.second)
    return;
  found->second.spare.reset();
  found->second.is_confirmed = false;
}

std::optional<HostAddr> SpareHosts::spare_for(const HostAddr& lost) const {
  const auto found = losses_.find(lost);
  const bool is_known = found != losses_.end() && found->second.is_confirmed;
  return is_known ? found->second.spare : std::nullopt;
}

void SpareHosts::place(const HostAddr& lost) {
  if (const auto found = losses_.find(lost); found != losses_.end()) found->second.is_placed = true;
}

}  // namespace meshbus

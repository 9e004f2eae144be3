#include "cli/run/spare_plan.h"

#include <algorithm>
#include <numeric>

namespace meshbus::cli {

SparePlan::SparePlan(std::uint64_t hosts, std::uint64_t use, std::uint64_t least)
    : hosts_(hosts),
      use_(std::min(hosts, use)),
      least_(std::max<std::uint64_t>(1, std::min(least, use))) {
  chosen_.resize(use_);
  std::iota(chosen_.begin(), chosen_.end(), 0);
}

void SparePlan::lose(std::uint64_t host, Time over) {
  if (lost_.insert(host).second) silent_.push_back({host, over});
}

void SparePlan::confirm_end(std::uint64_t host) {
  std::erase_if(silent_, [host](const Loss& loss) { return loss.host == host; });
}

bool SparePlan::come_back(std::uint64_t host) {
  return !is_full() && !refused_.contains(host) && lost_.erase(host) > 0;
}

void SparePlan::refuse(std::uint64_t host) {
  lost_.insert(host);
  refused_.insert(host);
}

bool SparePlan::may_grow() const {
  return std::any_of(lost_.begin(), lost_.end(),
                     [this](std::uint64_t host) { return !refused_.contains(host); }) ||
         std::any_of(aside_.begin(), aside_.end(),
                     [this](std::uint64_t host) { return !refused_.contains(host); });
}

std::uint64_t SparePlan::left() const {
  std::uint64_t unusable = lost_.size();
  for (const auto host : aside_) {
    if (!is_lost(host)) ++unusable;
  }
  return hosts_ - unusable;
}

std::optional<std::vector<std::uint64_t>> SparePlan::choose() {
  if (!is_enough()) return std::nullopt;
  std::vector<std::uint64_t> spares;
  for (std::uint64_t host = 0; host < hosts_; ++host) {
    const bool is_used = std::find(chosen_.begin(), chosen_.end(), host) != chosen_.end();
    if (!is_used && is_usable(host)) spares.push_back(host);
  }
  auto spare = spares.begin();
  for (auto& host : chosen_) {
    if (!is_usable(host) && spare != spares.end()) host = *spare++;
  }
  std::erase_if(chosen_, [this](std::uint64_t host) { return !is_usable(host); });
  // Hosts that came back are more than an attempt on few hosts had.
  while (chosen_.size() < use_ && spare != spares.end()) chosen_.push_back(*spare++);
  return chosen_;
}

SparePlan::Time SparePlan::clear_at() const {
  Time latest{};
  for (const auto& loss : silent_) latest = std::max(latest, loss.over);
  return latest;
}

}  // namespace meshbus::cli

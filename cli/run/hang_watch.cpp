#include "cli/run/hang_watch.h"

namespace meshbus::cli {
namespace {

/// Between two looks at ranks because some are frozen.
constexpr std::chrono::seconds kFrozenPause{60};

}  // namespace

void HangWatch::begin(std::optional<std::chrono::milliseconds> stall_after, Time now) {
  stall_.reset();
  if (stall_after) stall_.emplace(*stall_after, now);
}

std::optional<HangWatch::Time> HangWatch::due() const {
  return stall_ ? std::optional(stall_->next_look()) : std::nullopt;
}

std::optional<std::string> HangWatch::pass(JobHosts& hosts, const JobParts& parts,
                                           const RunEvents& events, Time now) {
  if (!stall_ || now < stall_->next_look()) return std::nullopt;
  return stall_->look(hosts, parts, events, looks_);
}

void HangWatch::on_frozen(JobHosts& hosts, const JobParts& parts, const RankReport& rank,
                          Time now) {
  if (frozen_at_ && now - *frozen_at_ < kFrozenPause) return;
  frozen_at_ = now;
  look(hosts, parts, "rank " + std::to_string(rank.rank) + " is frozen: " + rank.trouble_reason);
}

void HangWatch::look(JobHosts& hosts, const JobParts& parts, const std::string& why) {
  looks_.look(hosts, parts, why);
}

}  // namespace meshbus::cli

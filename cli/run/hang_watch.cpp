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

std::optional<std::string> HangWatch::pass(Context& context, HostMesh& hosts,
                                           const RoleViews& roles, Time now) {
  if (!stall_ || now < stall_->next_look()) return std::nullopt;
  return stall_->look(context, hosts, roles, looks_);
}

void HangWatch::on_frozen(Context& context, const RoleViews& roles, const std::string& name,
                          const RankReport& rank, Time now) {
  if (frozen_at_ && now - *frozen_at_ < kFrozenPause) return;
  frozen_at_ = now;
  look(context, roles, name + " is frozen: " + rank.trouble_reason);
}

void HangWatch::look(Context& context, const RoleViews& roles, const std::string& why) {
  looks_.look(context, roles, why);
}

}  // namespace meshbus::cli

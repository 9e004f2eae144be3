#include "agent/host/ownership/actor_leases.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace meshbus::host {

Result<void> ActorLeases::renew(const std::string& name, std::chrono::milliseconds length) {
  const auto found = leases_.find(name);
  if (found != leases_.end()) {
    found->second.renew(reactor_.now(), length);
  } else if (length.count() > 0) {
    if (leases_.size() >= kMost)
      return fail(ErrorCode::queue_full, "this host has the leases of " + std::to_string(kMost) +
                                             " meshes of actors, and no room for that of " + name);
    leases_.emplace(name, Lease(reactor_.now(), length));
  }
  // A check that comes too early arms the next one.
  if (const auto at = leases_.find(name);
      at != leases_.end() && (timer_ == 0 || at->second.due() < next_look_))
    arm();
  return {};
}

void ActorLeases::arm() {
  reactor_.cancel(std::exchange(timer_, 0));
  std::optional<Lease::Time> next;
  for (const auto& [name, lease] : leases_) {
    if (const auto due = lease.due()) next = next ? std::min(*next, *due) : *due;
  }
  if (!next) return;
  next_look_ = *next;
  timer_ = reactor_.at(*next, [this] { look(); });
}

void ActorLeases::look() {
  timer_ = 0;
  std::vector<std::pair<std::string, std::chrono::milliseconds>> lapsed;
  for (auto& [name, lease] : leases_) {
    if (lease.has_lapsed(reactor_.now())) lapsed.emplace_back(name, lease.length());
  }
  for (const auto& [name, length] : lapsed) {
    leases_.erase(name);
    on_lapsed_(mesh_of(name), name.substr(name.find(',') + 1), length);
  }
  arm();
}

}  // namespace meshbus::host

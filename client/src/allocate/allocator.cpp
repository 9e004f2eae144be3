#include "meshbus/allocator.h"

#include <algorithm>
#include <utility>

#include "client/src/allocate/host_ends.h"

namespace meshbus {

std::string AllocationEvent::describe() const {
  std::string text = "host " + std::to_string(rank);
  if (host) text += " (" + host->to_string() + ")";
  switch (kind) {
    case Kind::created: return text + " is being started";
    case Kind::running: return text + " runs";
    case Kind::stopped: return text + " stopped: " + reason;
    case Kind::failed: break;
  }
  return text + " failed: " + reason;
}

void HostEnds::note(std::uint64_t rank, End end) {
  const std::lock_guard lock(mutex_);
  if (rank >= ends_.size() || ends_[rank]) return;
  ends_[rank] = std::move(end);
  if (listener_) listener_(rank, *ends_[rank]);
  changed_.notify_all();
}

void HostEnds::listen(Listener listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
  for (std::uint64_t rank = 0; rank < ends_.size(); ++rank) {
    if (ends_[rank]) listener_(rank, *ends_[rank]);
  }
}

std::optional<std::string> HostEnds::wait(std::uint64_t rank, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  if (rank >= ends_.size()) return std::nullopt;
  const auto limit = std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  if (!changed_.wait_for(lock, limit, [&] { return ends_[rank].has_value(); })) return std::nullopt;
  return ends_[rank]->how;
}

Allocation::Allocation(Extent extent, std::vector<HostAddr> hosts)
    : extent_(std::move(extent)),
      hosts_(std::move(hosts)),
      ends_(std::make_shared<HostEnds>(hosts_.size())) {}

Allocation::~Allocation() = default;

Result<void> Allocation::release() {
  return fail(ErrorCode::refused,
              "these hosts end with this launcher, which holds what they were started by: start "
              "them apart from it (meshbus host) and take() them");
}

std::optional<std::string> Allocation::wait_end(std::uint64_t rank,
                                                std::chrono::milliseconds deadline) const {
  return ends_->wait(rank, deadline);
}

void Allocation::note_end(std::uint64_t rank, const std::string& how) {
  ends_->note(rank, {how});
}

}  // namespace meshbus

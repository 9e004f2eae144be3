#include "cli/mesh/returned_copies.h"

namespace meshbus::cli {

std::function<void(const ReturnedMessage&)> ReturnedCopies::handler() const {
  return [shared = shared_](const ReturnedMessage& message) {
    {
      const std::lock_guard lock(shared->mutex);
      shared->messages.push_back(message);
    }
    shared->is_more.notify_all();
  };
}

std::vector<ReturnedMessage> ReturnedCopies::wait_for(std::uint64_t count,
                                                      std::chrono::milliseconds limit) const {
  std::unique_lock lock(shared_->mutex);
  shared_->is_more.wait_for(lock, limit, [&] { return shared_->messages.size() >= count; });
  return shared_->messages;
}

}  // namespace meshbus::cli

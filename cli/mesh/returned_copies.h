#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "meshbus/context.h"

namespace meshbus::cli {

/// The copies of a cast that have come back. Any thread.
class ReturnedCopies {
 public:
  /// For ContextOptions::on_returned; may outlive this.
  std::function<void(const ReturnedMessage&)> handler() const;
  /// Waits until so many have been told, and returns all that have.
  std::vector<ReturnedMessage> wait_for(std::uint64_t count, std::chrono::milliseconds limit) const;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable is_more;
    std::vector<ReturnedMessage> messages;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace meshbus::cli

#pragma once

#include <functional>
#include <mutex>

namespace meshbus {

/// Between an object and the handler of its user, which runs on another thread: once shut, the handler is not called any more. May be used
/// from any thread.
class HandlerGate {
 public:
  HandlerGate() = default;
  HandlerGate(const HandlerGate&) = delete;
  HandlerGate& operator=(const HandlerGate&) = delete;

  /// Calls it, unless the gate is shut.
  void pass(const std::function<void()>& handler) {
    const std::lock_guard lock(mutex_);
    if (!is_shut_) handler();
  }
  /// Waits for a handler that is running, unless it is called by it.
  void shut() {
    const std::lock_guard lock(mutex_);
    is_shut_ = true;
  }

 private:
  /// Held while a handler runs; recursive, because a handler may destroy what it is told by.
  std::recursive_mutex mutex_;
  bool is_shut_ = false;
};

}  // namespace meshbus

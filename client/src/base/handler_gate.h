#pragma once

#include <functional>
#include <mutex>

namespace meshbus {

/// Between an object and the handler of its user, which runs on another thread: once shut, the
/// handler is not called any more. Any thread.
class HandlerGate {
 public:
  HandlerGate() = default;
  HandlerGate(const HandlerGate&) = delete;
  HandlerGate& operator=(const HandlerGate&) = delete;

  /// Calls it, unless the gate is shut. What it throws is logged as an error and ends nothing
  /// (spec 6.7).
  void pass(const std::function<void()>& handler);
  /// Waits for a handler that is running, unless it is called by it.
  void shut();

 private:
  /// Held while a handler runs; recursive, because a handler may destroy the object that calls it.
  std::recursive_mutex mutex_;
  bool is_shut_ = false;
};

}  // namespace meshbus

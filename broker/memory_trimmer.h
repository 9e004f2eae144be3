#pragma once

#include <chrono>
#include <functional>

#include "common/loop/reactor.h"

namespace meshbus {

/// Gives memory that this process does not use any more back to the system, some time after a flood
/// of work. Lives on the reactor's thread.
class MemoryTrimmer {
 public:
  static constexpr std::chrono::seconds kInterval{30};

  /// `forget_old` is called before each look at the memory.
  MemoryTrimmer(Reactor& reactor, std::function<void()> forget_old);
  ~MemoryTrimmer() { reactor_.cancel(timer_); }
  MemoryTrimmer(const MemoryTrimmer&) = delete;
  MemoryTrimmer& operator=(const MemoryTrimmer&) = delete;

 private:
  void arm();

  Reactor& reactor_;
  const std::function<void()> forget_old_;
  Reactor::TimerId timer_ = 0;
};

/// Gives memory back to the system if the process has much more than it uses.
void trim_memory();

}  // namespace meshbus

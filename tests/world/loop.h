#pragma once

#include <chrono>
#include <functional>

#include <zmq.hpp>

#include "common/loop/reactor.h"

namespace meshbus::test {

/// One reactor for brokers and peers alike, driven by the test.
class Loop {
 public:
  Loop() { context.set(zmq::ctxopt::max_sockets, 20000); }
  /// Turns until `predicate` holds; false when it does not within the deadline.
  bool until(const std::function<bool()>& predicate,
             std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!predicate()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      reactor.turn(std::chrono::milliseconds(5));
    }
    return true;
  }
  /// Turns for that time, for what must not happen.
  void run_for(std::chrono::milliseconds time) {
    until([] { return false; }, time);
  }

  zmq::context_t context{1};
  Reactor reactor;
};

}  // namespace meshbus::test

#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "agent/proc/runtime/message_run.h"
#include "common/loop/reactor.h"

namespace meshbus::mesh_proc {

/// Acknowledges the messages that the handlers' thread has taken, at the latest after a short time
/// however long a handler runs. Lives on the reactor's thread.
class TakenReports {
 public:
  using Acknowledge = std::function<void(const wire::Envelope&)>;

  TakenReports(Reactor& reactor, MessageRuns& runs, Acknowledge acknowledge)
      : reactor_(reactor), runs_(runs), acknowledge_(std::move(acknowledge)) {}
  TakenReports(const TakenReports&) = delete;
  TakenReports& operator=(const TakenReports&) = delete;

  /// Acknowledges what was taken until now. Whether there was anything.
  bool tell();
  /// A run is on its way to the handlers: what they take of it is acknowledged in time.
  void watch();

 private:
  static constexpr std::chrono::milliseconds kInterval{50};
  /// The longest time between two looks at a handler that takes nothing more meanwhile.
  static constexpr std::chrono::milliseconds kLongestInterval{800};

  void look_again(std::chrono::milliseconds interval);

  Reactor& reactor_;
  MessageRuns& runs_;
  const Acknowledge acknowledge_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus::mesh_proc

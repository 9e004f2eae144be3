#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client/src/base/handler_thread.h"
#include "meshbus/context.h"

namespace meshbus {

/// The account of a Context's messages that have not arrived (spec 9.1): counts them, and hands
/// them to the launcher's handler; without one it logs them, once a second at most. Lives on the
/// reactor's thread; count() is for any thread.
class ReturnedMessages {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Handler = std::function<void(const ReturnedMessage&)>;

  ReturnedMessages(HandlerThread& handlers, Handler handler)
      : handlers_(handlers), handler_(std::move(handler)) {}
  /// Logs what is left to log.
  ~ReturnedMessages();
  ReturnedMessages(const ReturnedMessages&) = delete;
  ReturnedMessages& operator=(const ReturnedMessages&) = delete;

  void add(ReturnedMessage message, Time now);
  std::uint64_t count() const noexcept { return count_; }
  /// The line for `count` messages, the last of which is this one.
  static std::string describe(std::uint64_t count, const ReturnedMessage& last);

 private:
  void log();

  HandlerThread& handlers_;
  const Handler handler_;
  std::atomic<std::uint64_t> count_{0};
  std::uint64_t unlogged_ = 0;
  std::optional<Time> logged_;
  ReturnedMessage last_;
};

}  // namespace meshbus

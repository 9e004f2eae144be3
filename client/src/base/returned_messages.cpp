#include "client/src/base/returned_messages.h"

#include <memory>
#include <utility>

#include "client/src/base/handler_gate.h"
#include "common/base/log.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kLogInterval{1};

}  // namespace

ReturnedMessages::~ReturnedMessages() {
  if (unlogged_ != 0) log();
}

std::string ReturnedMessages::describe(std::uint64_t count, const ReturnedMessage& last) {
  const auto to =
      last.to ? last.to->to_string() : std::string("a proc that this launcher did not start");
  return std::to_string(count) +
         (count == 1 ? " message of this launcher has" : " messages of this launcher have") +
         " not arrived; the last one was for " + to + ", port " + std::to_string(last.port) + ": " +
         last.error.to_string();
}

void ReturnedMessages::log() {
  log::warn(describe(std::exchange(unlogged_, 0), last_) +
            " (ContextOptions::on_returned hears of each)");
}

void ReturnedMessages::add(ReturnedMessage message, Time now) {
  ++count_;
  if (handler_) {
    handlers_.post([handler = handler_, message = std::move(message)] {
      HandlerGate().pass([&] { handler(message); });
    });
    return;
  }
  ++unlogged_;
  last_ = std::move(message);
  if (logged_ && now - *logged_ < kLogInterval) return;
  logged_ = now;
  log();
}

}  // namespace meshbus

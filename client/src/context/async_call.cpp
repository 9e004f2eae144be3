#include "client/src/context/async_call.h"

#include <utility>

#include "client/src/base/handler_gate.h"
#include "client/src/context/context_core.h"

namespace meshbus {
namespace {

Error cancelled() {
  return {ErrorCode::fate_unknown, "the caller has cancelled the call"};
}

}  // namespace

AsyncCall::AsyncCall(ContextCore& core, std::size_t ranks, const AsyncOptions& options,
                     Handler handler)
    : core_(core),
      is_direct_(options.is_direct),
      handler_(std::make_shared<const Handler>(std::move(handler))),
      is_open_(ranks, true),
      left_(ranks) {}

AsyncCall::~AsyncCall() {
  fail_all(Error(ErrorCode::fate_unknown, "the launcher has left the bus"));
}

void AsyncCall::fill(std::uint64_t ordinal, Result<std::string> answer) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_open_[ordinal]) return;
    is_open_[ordinal] = false;
    --left_;
  }
  tell(ordinal, std::move(answer));
}

void AsyncCall::fail_all(const Error& error) {
  for (std::uint64_t ordinal = 0; ordinal < is_open_.size(); ++ordinal) fill(ordinal, fail(error));
}

void AsyncCall::tell(std::uint64_t ordinal, Result<std::string> answer) {
  if (is_direct_) return HandlerGate().pass([&] { (*handler_)(ordinal, std::move(answer)); });
  // Held apart, so that a large answer is copied neither with the task nor for the handler.
  std::function<void()> task = [handler = handler_, ordinal,
                                held = std::make_shared<Result<std::string>>(std::move(answer))] {
    HandlerGate().pass([&] { (*handler)(ordinal, std::move(*held)); });
  };
  // At the end of the launcher its handlers' thread takes nothing more.
  if (!core_.handlers().post(task)) task();
}

void AsyncCall::watch(std::stop_token stop) {
  if (!stop.stop_possible()) return;
  stop_.emplace(std::move(stop), [weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->on_stop();
  });
}

void AsyncCall::on_stop() {
  // While a rank has no answer the core is there: its end fills them all, and waits for the lock.
  const std::lock_guard lock(mutex_);
  if (left_ > 0) core_.post([self = shared_from_this()] { self->cancel(); });
}

void AsyncCall::cancel() {
  is_cancelled_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return;
  }
  if (id_ != 0) bus_->give_up_call(id_, cancelled());
}

void AsyncCall::begin(Bus& bus, const std::function<std::uint64_t()>& start) {
  if (is_cancelled_) return fail_all(cancelled());
  bus_ = &bus;
  id_ = start();
}

}  // namespace meshbus

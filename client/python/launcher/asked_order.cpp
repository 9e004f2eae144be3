#include "client/python/launcher/asked_order.h"

#include <utility>

namespace meshbus::python {

AskedOrder::AskedOrder(const ResizeOrder& order)
    : is_growth(order.is_growth()),
      hosts(order.hosts()),
      blocks(order.blocks()),
      leaving(order.leaving()),
      requester(order.requester()),
      order_(order) {}

Result<ResizeReport> AskedOrder::decide() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return refusal_ && (!has_begun_ || done_); });
  return done_ ? *done_ : fail(ErrorCode::refused, *refusal_);
}

Result<ResizeReport> AskedOrder::carry_out(std::vector<HostAddr> where) {
  {
    const std::lock_guard lock(mutex_);
    if (refusal_) return fail(ErrorCode::refused, "this order is over");
    if (std::exchange(has_begun_, true))
      return fail(ErrorCode::refused, "this order was carried out already");
  }
  auto report = order_.carry_out(std::move(where));
  const std::lock_guard lock(mutex_);
  done_ = report;
  changed_.notify_all();
  return report;
}

bool AskedOrder::settle(std::string refusal) {
  const std::lock_guard lock(mutex_);
  if (!refusal_) refusal_ = std::move(refusal);
  changed_.notify_all();
  return !has_begun_;
}

std::shared_ptr<AskedOrder> AskedOrders::begin(const ResizeOrder& order) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return nullptr;
  auto asked = std::make_shared<AskedOrder>(order);
  current_ = asked;
  return asked;
}

void AskedOrders::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  if (const auto asked = current_.lock()) asked->settle(kClosed);
}

}  // namespace meshbus::python

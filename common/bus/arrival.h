#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "meshbus/result.h"

namespace meshbus {

/// Lets a thread wait until a large body has arrived. A waiter that gives up ends the transfer, and
/// one whose bus goes hears fate_unknown.
class Arrival {
 public:
  /// Called once: the message is on its way behind its body, or why not.
  using Sent = std::function<void(const Result<void>&)>;
  /// Whether somebody still waits.
  using IsWanted = std::function<bool()>;

  /// For the sender of the body; any thread may call it, once.
  Sent sent() {
    return [teller = std::exchange(teller_, nullptr)](const Result<void>& result) {
      teller->tell(result);
    };
  }
  IsWanted is_wanted() const {
    return [waiter = std::weak_ptr<void>(waiter_)] { return !waiter.expired(); };
  }
  /// Errors: fate_unknown after `patience`; those of the transfer. `bytes`: of the body, for
  /// people.
  Result<void> wait(std::size_t bytes, std::chrono::milliseconds patience) {
    teller_.reset();
    if (future_.wait_for(std::min(patience, kLongest)) == std::future_status::ready)
      return future_.get();
    return fail(ErrorCode::fate_unknown,
                "a body of " + std::to_string(bytes) + " bytes has not arrived within " +
                    std::to_string(patience.count()) + " ms; what has not left is not sent");
  }

 private:
  /// What a patience is cut to, so that adding it to now cannot overflow.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

  struct Teller {
    ~Teller() { tell(fail(ErrorCode::fate_unknown, "this side has left the bus")); }
    void tell(const Result<void>& result) {
      if (!std::exchange(is_told, true)) promise.set_value(result);
    }
    std::promise<Result<void>> promise;
    bool is_told = false;
  };

  std::shared_ptr<Teller> teller_ = std::make_shared<Teller>();
  std::future<Result<void>> future_ = teller_->promise.get_future();
  std::shared_ptr<void> waiter_ = std::make_shared<char>();
};

}  // namespace meshbus

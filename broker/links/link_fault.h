#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace meshbus {

/// A fault that a link has on purpose (meshbus chaos), and its end. Pure: the time is the caller's.
class LinkFault {
 public:
  using Time = std::chrono::steady_clock::time_point;

  enum class Kind : std::uint8_t {
    none,
    cut,   ///< There is no connection.
    mute,  ///< There is one, and nothing is sent over it.
    delay  ///< What is sent leaves later.
  };
  struct Order {
    Kind kind = Kind::none;
    Time end;
    std::chrono::milliseconds delay{0};
  };

  void begin(const Order& order) { order_ = order; }
  bool is_active(Time now) const noexcept { return order_.kind != Kind::none && now < order_.end; }
  bool is_cut(Time now) const noexcept { return order_.kind == Kind::cut && is_active(now); }
  /// Something waits to be sent. When it may leave; nothing: now. With a delay the first message
  /// that waits determines that, and what came behind it leaves with it.
  std::optional<Time> closed_until(Time now);
  /// When it is over; nothing: there is none.
  std::optional<Time> end() const noexcept {
    return order_.kind == Kind::none ? std::nullopt : std::optional(order_.end);
  }
  /// It is over.
  void clear() { *this = {}; }

 private:
  Order order_;
  /// Since when something waits for its delay.
  std::optional<Time> waits_since_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "common/loop/reactor.h"
#include "common/wire/frame.h"

namespace meshbus {

/// The credit of one session, both ways (FrameHeader.credit in bus.fbs): how much data of ours the
/// broker has not taken yet, and how much of what we took it has not been told. Pure: the time is
/// an argument.
class CreditAccount {
 public:
  using Time = Reactor::Time;

  /// `is_link`: frames wait to be acknowledged, so credit is returned at even intervals.
  explicit CreditAccount(bool is_link) noexcept : is_link_(is_link) {}
  /// A new connection.
  void reset() noexcept;

  /// Whether the broker gives credit; without it any amount may be sent.
  void set_credited(bool is_credited) noexcept { is_credited_ = is_credited; }
  /// The broker has taken this much. A value that cannot be true changes nothing.
  void on_credit(std::uint64_t credit) noexcept;
  /// Whether a data frame of this size may be sent now.
  bool may_send(std::size_t bytes) const noexcept {
    return !is_credited_ || is_within_window(under_way(), bytes);
  }
  void on_sent(std::size_t bytes) noexcept { sent_ += bytes; }
  /// Data on its way that the broker has not taken.
  std::uint64_t under_way() const noexcept { return sent_ - credit_; }

  void take_data(std::size_t bytes) noexcept { taken_ += bytes; }
  void take_control(std::size_t bytes) noexcept { control_ += bytes; }
  /// Bytes of data taken: what a frame announces.
  std::uint64_t taken() const noexcept { return taken_; }
  /// Whether something is not announced; is_due() is false otherwise.
  bool has_news() const noexcept { return taken_ != announced_ || control_ > 0; }
  /// Whether the broker should be told now, in a frame of its own.
  bool is_due(Time now) noexcept;
  /// A frame has left with taken() in it.
  void on_announced() noexcept {
    announced_ = taken_;
    waiting_since_ = {};
    control_ = 0;
  }

 private:
  bool is_link_;
  bool is_credited_ = false;
  std::uint64_t sent_ = 0;
  std::uint64_t credit_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t announced_ = 0;
  /// When is_due() was true last.
  Time due_at_{};
  /// Since when there is something to announce; zero when there is nothing, or it was not noticed
  /// yet.
  Time waiting_since_{};
  /// Bytes of control taken since the broker last heard from us: it sends only so much control to a
  /// silent peer.
  std::uint64_t control_ = 0;
};

}  // namespace meshbus

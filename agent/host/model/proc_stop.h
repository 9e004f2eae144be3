#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/model/stop_order.h"
#include "agent/host/model/termination.h"
#include "common/loop/reactor.h"

namespace meshbus::host {

/// What was asked of a proc that is to end, and the signals that it got through us. Written by
/// ProcEnding only.
class ProcStop {
 public:
  /// Reason, requester and cause of the first order; a later order only hastens it.
  const StopOrder& order() const noexcept { return order_; }
  /// The steps of the stop; null: none is under way.
  Termination* termination() noexcept { return termination_ ? &*termination_ : nullptr; }
  const Termination* termination() const noexcept {
    return termination_ ? &*termination_ : nullptr;
  }
  /// Bit n: signal n waits for the birth.
  std::uint64_t held_signals() const noexcept { return held_signals_; }
  /// Bit n: signal n was sent.
  std::uint64_t sent_signals() const noexcept { return sent_signals_; }
  bool has_sent(int signal) const noexcept { return (sent_signals_ >> signal & 1) != 0; }

  void set_order(StopOrder order) { order_ = std::move(order); }
  Termination& begin(Termination termination) { return termination_.emplace(termination); }
  void hold(int signal) noexcept { held_signals_ |= std::uint64_t{1} << signal; }
  std::uint64_t take_held() noexcept { return std::exchange(held_signals_, 0); }
  void note_sent(int signal) noexcept { sent_signals_ |= std::uint64_t{1} << signal; }
  /// Takes over what another agent has written down.
  void restore(StopOrder order, std::uint64_t held, std::uint64_t sent) {
    order_ = std::move(order);
    held_signals_ = held;
    sent_signals_ = sent;
  }

  /// Carries out the next step.
  Reactor::TimerId timer = 0;

 private:
  StopOrder order_;
  std::optional<Termination> termination_;
  std::uint64_t held_signals_ = 0;
  std::uint64_t sent_signals_ = 0;
};

}  // namespace meshbus::host

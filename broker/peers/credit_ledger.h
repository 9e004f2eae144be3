#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "broker/peers/connection_id.h"

namespace meshbus {

/// What one message of data still costs its sender: the sender gets credit for these bytes when the
/// message has left the broker. Travels with the message by reference; a queue that keeps the
/// message take()s it, and what is left of it in the end is released at once.
struct Charge {
  /// The connection that the message came by, or a cast's account (CastCredits). kNoConnection for
  /// what came by a link, and for the broker's own messages.
  ConnectionId sender = kNoConnection;
  /// 0 for control, and once somebody has taken the charge.
  std::size_t bytes = 0;

  bool has_sender() const noexcept { return sender != kNoConnection; }
  bool is_due() const noexcept { return bytes > 0; }
  Charge take() noexcept { return {sender, std::exchange(bytes, 0)}; }
};

/// Whose bytes wait in a queue of data, in the order in which they leave it. Pure.
class CreditLedger {
 public:
  /// So many bytes join the queue. They are charged to `charge`, which is taken, when it is due.
  void add(Charge& charge, std::size_t bytes) {
    append(charge.take().bytes > 0 ? charge.sender : kNoConnection, bytes);
  }
  /// The next so many bytes have left: calls each(sender, bytes) for those that a sender was
  /// charged for. There may be fewer.
  template <typename Each>
  void release(std::size_t bytes, Each&& each) {
    while (bytes > 0 && !runs_.empty()) {
      Run& run = runs_.front();
      const std::size_t released = bytes < run.bytes ? bytes : run.bytes;
      const ConnectionId sender = run.sender;
      bytes -= released;
      run.bytes -= released;
      if (run.bytes == 0) runs_.pop_front();
      if (sender != kNoConnection) each(sender, released);
    }
  }
  /// Charges nobody any more for what waits now, which keeps its place: calls each(sender, bytes).
  template <typename Each>
  void write_off(Each&& each) {
    std::deque<Run> written_off;
    written_off.swap(runs_);
    for (const Run& run : written_off) append(kNoConnection, run.bytes);
    for (const Run& run : written_off) {
      if (run.sender != kNoConnection) each(run.sender, run.bytes);
    }
  }
  bool empty() const noexcept { return runs_.empty(); }

 private:
  struct Run {
    ConnectionId sender;
    std::size_t bytes;
  };
  void append(ConnectionId sender, std::size_t bytes) {
    if (runs_.empty() || runs_.back().sender != sender) runs_.push_back({sender, 0});
    runs_.back().bytes += bytes;
  }

  std::deque<Run> runs_;
};

}  // namespace meshbus

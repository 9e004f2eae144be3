#pragma once

#include <algorithm>
#include <cstddef>

namespace meshbus {

/// How much is read from each connection in one turn of the loop. All that have something share
/// kTurn, but each gets kLeast at any rate, and no more than kMost, which is less than a socket
/// takes at once: no peer is read from faster than others can be sent to. Pure.
class ReadShares {
 public:
  /// The share of one more connection that is read from in this turn.
  std::size_t next() noexcept {
    ++connections_;
    return read_ < kTurn ? share_ : kLeast;
  }
  void add(std::size_t read) noexcept { read_ += read; }
  /// What the next turn's connections get follows from how many there were in this one.
  void end_turn() noexcept {
    share_ = std::clamp(kTurn / std::max<std::size_t>(connections_, 1), kLeast, kMost);
    connections_ = read_ = 0;
  }

 private:
  static constexpr std::size_t kTurn = 1024 * 1024;
  static constexpr std::size_t kLeast = 32 * 1024;
  static constexpr std::size_t kMost = 128 * 1024;

  /// The connections that were read from in this turn, and the bytes that came.
  std::size_t connections_ = 0, read_ = 0;
  std::size_t share_ = kMost;
};

}  // namespace meshbus

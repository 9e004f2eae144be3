#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/bytes.h"
#include "wire/hands_generated.h"

namespace meshbus::host {

/// What an exec has written and its requester has not taken (schemas/hands.fbs: ExecOutput). Pure.
class ExecOutput {
 public:
  explicit ExecOutput(std::size_t window) : window_(window) {}

  void add(wire::Stream stream, Bytes bytes);
  /// The stream is at its end.
  void end(wire::Stream stream);
  /// Whether the pipes should be read.
  bool wants_more() const noexcept { return bytes_ < window_; }
  /// The next message (without the number of the exec), or null. It is kept until taken().
  const wire::ExecOutputT* next();
  /// The last one that next() gave was not sent.
  void put_back() { --sent_; }
  /// Everything up to this sequence is taken.
  void taken(std::uint64_t sequence);
  /// Messages on their way may be lost: next() begins with them again.
  void resend() { sent_ = 0; }
  /// The sequence of the last message.
  std::uint64_t last() const noexcept { return last_; }
  bool is_all_taken() const noexcept { return kept_.empty(); }

 private:
  void push(wire::ExecOutputT message);

  std::size_t window_;
  std::deque<wire::ExecOutputT> kept_;
  std::size_t sent_ = 0;  // this many from the front
  std::size_t bytes_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace meshbus::host

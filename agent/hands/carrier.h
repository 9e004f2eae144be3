#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace meshbus::hands {

/// Carries bytes from one descriptor to another, without blocking; both are non-blocking. Reads no
/// further while the other side takes nothing.
class Carrier {
 public:
  /// A descriptor below 0: bytes come by push(), or go nowhere.
  Carrier(int from, int to) : from_(from), to_(to) {}

  /// Whether to wait until `from` can be read, or `to` written.
  bool wants_read() const noexcept { return !at_end_ && pending_.size() < kMost; }
  bool wants_write() const noexcept { return !pending_.empty(); }
  /// Reads what is there, at most one piece.
  void read();
  /// Bytes that come another way.
  void push(std::string_view bytes) { pending_.append(bytes); }
  bool has_room() const noexcept { return pending_.size() < kMost; }
  /// Writes what goes. False: the other side is gone.
  bool write();
  /// Nothing more is carried.
  void stop();
  /// `from` has ended, and all of it is written.
  bool is_done() const noexcept { return at_end_ && pending_.empty(); }
  bool is_at_end() const noexcept { return at_end_; }
  /// Why `from` could not be read to its end, as errno has it; 0: it could.
  int error() const noexcept { return error_; }

 private:
  static constexpr std::size_t kMost = 64 * 1024;
  int from_;
  int to_;
  std::string pending_;
  bool at_end_ = false;
  int error_ = 0;
};

}  // namespace meshbus::hands

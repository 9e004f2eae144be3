#pragma once

#include <array>
#include <cstddef>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

/// Six low descriptor numbers that are lent to one child after the other: its standard streams, its
/// bootstrap descriptor, the socket of a process of several procs, and the folder of the bus for a
/// proc of another user. A child shares our descriptor table and drops all of it above these
/// numbers in one go (ChildPlan::first_foreign_fd), instead of copying a table with a pidfd for
/// every proc. Between children they hold /dev/null.
class ChildSlots {
 public:
  /// Slots 0 to 2 are the standard streams.
  static constexpr std::size_t kBootstrap = 3;
  static constexpr std::size_t kLink = 4;
  static constexpr std::size_t kBusFolder = 5;

  /// `null` is /dev/null, borrowed, and must live as long. Make it early: numbers are taken as low
  /// as they are free. Errors: io_error.
  static Result<ChildSlots> make(int null);

  /// Moves `fd` to the slot and returns its number there; -1 with errno when that fails.
  int lend(std::size_t slot, UniqueFd fd);
  /// The slot's number while it holds /dev/null.
  int null_slot(std::size_t slot) const noexcept { return slots_[slot].get(); }
  /// Ends what was lent since the last call: a pipe's end kept here would keep the pipe from
  /// ending.
  void take_back();
  /// The number above all slots.
  unsigned first_foreign_fd() const noexcept { return first_foreign_; }

 private:
  std::array<UniqueFd, 6> slots_;
  std::array<bool, 6> lent_{};
  int null_ = -1;
  unsigned first_foreign_ = 0;
};

}  // namespace meshbus::keeper

#pragma once

#include <elfutils/libdw.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "agent/stacks/registers.h"

namespace meshbus::stacks {

/// What a location expression of unwind information comes to.
struct Located {
  std::uint64_t value = 0;
  /// True: `value` is what is asked for; false: it is the address where that lies.
  bool is_value = false;
};

/// Where an expression gets its operands.
struct ExpressionInput {
  const Registers& registers;
  /// The canonical frame address, where there is one already.
  std::optional<std::uint64_t> frame_address;
  /// Reads a word of memory.
  std::function<std::optional<std::uint64_t>(std::uint64_t)> memory;
};

/// Evaluates what compilers write into .eh_frame. Empty: an unknown operation, a register that is
/// unknown, memory that cannot be read, or more than 256 steps.
std::optional<Located> evaluate(const Dwarf_Op* operations, std::size_t count,
                                const ExpressionInput& input);

}  // namespace meshbus::stacks

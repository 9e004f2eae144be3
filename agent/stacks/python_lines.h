#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace meshbus::stacks {

/// The line of an instruction, by the location table of its code object (CPython 3.11 and later,
/// Objects/locations.md). `offset`: of the instruction, in bytes. 0: it has no line, or the table
/// is broken.
std::uint32_t find_python_line(std::span<const std::byte> table, std::uint32_t first_line,
                               std::uint64_t offset);

}  // namespace meshbus::stacks

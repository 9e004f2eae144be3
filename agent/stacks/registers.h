#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace meshbus::stacks {

/// The registers of a frame, by their DWARF numbers. Empty: unknown there. A plain value.
struct Registers {
#if defined(__x86_64__)
  static constexpr std::size_t kCount = 17;
  static constexpr std::size_t kStackPointer = 7;
  static constexpr std::size_t kFramePointer = 6;
#elif defined(__aarch64__)
  static constexpr std::size_t kCount = 32;
  static constexpr std::size_t kStackPointer = 31;
  static constexpr std::size_t kFramePointer = 29;
#else
#error "stacks: which registers has this machine?"
#endif
  std::array<std::optional<std::uint64_t>, kCount> values{};
  std::uint64_t pc = 0;

  std::optional<std::uint64_t> get(std::size_t number) const {
    return number < kCount ? values[number] : std::nullopt;
  }
  std::uint64_t stack_pointer() const { return values[kStackPointer].value_or(0); }
};

}  // namespace meshbus::stacks

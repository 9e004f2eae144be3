#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::stacks {

/// The memory of another process, read from outside (process_vm_readv, or /proc/PID/mem where that
/// call is refused): the process runs on. Needs the right to trace it. What a thread had on its
/// stack while it was stopped is read from a copy.
class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid) : pid_(pid) {}

  /// All `size` bytes, or false.
  bool read(std::uint64_t address, void* into, std::size_t size) const;
  template <typename Value>
  std::optional<Value> get(std::uint64_t address) const {
    Value value{};
    if (!read(address, &value, sizeof value)) return std::nullopt;
    return value;
  }
  std::optional<std::uint64_t> word(std::uint64_t address) const {
    return get<std::uint64_t>(address);
  }

  /// Copies [begin, begin + size) now; until the next call it is read from that copy. Takes as much
  /// of the beginning as there is.
  void keep(std::uint64_t begin, std::size_t size);

  /// Why nothing can be read at all, as errno; 0: nothing is known to be wrong.
  int error() const noexcept { return error_; }

 private:
  std::size_t read_some(std::uint64_t address, void* into, std::size_t size) const;

  pid_t pid_;
  mutable UniqueFd file_;  // /proc/PID/mem, once it is needed
  mutable int error_ = 0;
  std::uint64_t kept_at_ = 0;
  std::vector<std::byte> kept_;
};

}  // namespace meshbus::stacks

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::stacks {

/// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< Where `begin` is in the file.
  std::uint64_t inode = 0;
  std::string device;  ///< As the kernel writes it: "fe:00".
  std::string path;    ///< Empty: no file. "[stack]", "[vdso]".
  bool is_executable = false;

  bool is_file() const noexcept { return !path.empty() && path.front() == '/'; }
};

/// The memory of a process as the kernel lists it, in ascending order. A plain value.
class ProcessMaps {
 public:
  /// Lines that cannot be read are left out.
  static ProcessMaps parse(std::string_view text);
  /// Empty when the process is gone or belongs to another user.
  static ProcessMaps read(pid_t pid);

  /// The mapping that contains `address`; null: none does.
  const Mapping* find(std::uint64_t address) const;
  const std::vector<Mapping>& all() const noexcept { return mappings_; }

 private:
  std::vector<Mapping> mappings_;
};

}  // namespace meshbus::stacks

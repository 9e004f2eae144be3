#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

/// What a broker costs its machine.
namespace meshbus::test {

/// What AddressSanitizer keeps back would look like a broker that grows.
inline ProcessOptions with_small_quarantine() {
  const char* given = std::getenv("ASAN_OPTIONS");
  return {.environment = {
              {"ASAN_OPTIONS", std::string(given == nullptr ? "" : given) +
                                   ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}}};
}

inline std::size_t descriptors_of(pid_t pid) {
  std::size_t count = 0;
  std::error_code gone;
  for (std::filesystem::directory_iterator at("/proc/" + std::to_string(pid) + "/fd", gone), end;
       at != end; at.increment(gone))
    ++count;
  return count;
}

/// Resident, anonymous memory in KiB.
inline std::uint64_t memory_of(pid_t pid) {
  std::istringstream lines(read_file("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("RssAnon:")) return std::strtoull(line.c_str() + 8, nullptr, 10);
  }
  return 0;
}

}  // namespace meshbus::test

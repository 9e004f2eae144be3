#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace meshbus::host {

/// What /proc says of one process at one moment.
struct ProcUsage {
  std::uint64_t start_ticks =
      0;  ///< When it began, in ticks since boot: another one under the same number began later.
  std::uint64_t user_us = 0;  ///< CPU time of all threads, in steps of 10 ms.
  std::uint64_t system_us = 0;
  std::uint64_t rss_bytes = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint32_t threads = 0;
  std::uint32_t descriptors = 0;  ///< 0: cannot be seen.
};

/// Reads CPU times and start out of the text of /proc/PID/stat; `ticks_per_second` is
/// sysconf(_SC_CLK_TCK). False: it is none.
bool parse_stat(std::string_view text, long ticks_per_second, ProcUsage& usage);
/// Reads memory and threads out of the text of /proc/PID/status. A process that has ended, but is
/// not reaped, has no memory.
void parse_status(std::string_view text, ProcUsage& usage);

/// About 25 µs. Nothing: there is no such process, or not for us.
std::optional<ProcUsage> read_usage(pid_t pid);

}  // namespace meshbus::host

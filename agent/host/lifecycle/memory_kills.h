#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/host/model/exit_report.h"
#include "common/base/unique_fd.h"

namespace meshbus::host {

/// How many processes of this host the kernel has killed for want of memory, by the counter
/// `oom_kill` of the memory cgroup that the host is in (v1 or v2; kills for want of memory of the
/// whole machine count there too). Procs that were moved into another cgroup are not counted in v1.
class MemoryKills {
 public:
  /// Looks for the cgroup of this process, counts from now.
  MemoryKills() : MemoryKills(of_host({})) {}
  /// The same. `cgroup`: the cgroup v2 of the host's procs, if there is one. The roles of the host
  /// are not in it.
  static MemoryKills of_host(const std::string& cgroup);
  /// For tests: this file instead, with a line "oom_kill N".
  explicit MemoryKills(std::string file);

  /// Whether a process that was killed from outside at that time (nanoseconds since 1970 UTC) was
  /// killed for want of memory. Each kill that is counted answers for one process.
  OutOfMemory take(std::int64_t ended_ns);
  /// So many processes were killed in the cgroup of one proc, and its exit report says so. In v2
  /// the counter of the host includes them: they explain no other end.
  void on_counted_elsewhere(std::uint64_t kills);
  /// The cgroup with the counter; empty: there is none.
  std::string cgroup() const;

 private:
  std::optional<std::uint64_t> read() const;

  std::string file_;
  UniqueFd counter_;
  std::int64_t since_ns_;
  std::uint64_t told_ = 0;
};

}  // namespace meshbus::host

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/resource.h>

#include "agent/host/model/proc_state.h"
#include "agent/os/spec.h"
#include "wire/forward.h"

namespace meshbus::host {

/// "SIGSEGV", "SIGRTMIN+3", "signal 99"
std::string signal_name(int signal);

/// Whether the kernel has killed a process of this host for want of memory.
enum class OutOfMemory : std::uint8_t {
  unknown,  ///< Nothing counts that here.
  no,       ///< The counter has not moved.
  yes,
};

/// What is known about the end of a process besides how it ended.
struct EndFacts {
  std::uint64_t sent_signals = 0;  ///< Bit n: signal n was sent to it through us.
  std::chrono::microseconds cpu_time{
      0};  ///< CPU time that it has used, waited-for children included.
  std::uint64_t cpu_soft = RLIM_INFINITY;  ///< RLIMIT_CPU, seconds.
  std::uint64_t cpu_hard = RLIM_INFINITY;
  OutOfMemory out_of_memory = OutOfMemory::unknown;
  std::string memory_cgroup = {};  ///< The cgroup with the counter.
  std::string memory_limit = {};   ///< The limit of the proc, in words: "limit of 64MiB of memory";
                                   ///< empty: it has none, and the next two fields say nothing.
  std::uint32_t memory_kills = 0;  ///< Processes of the proc, perhaps its own among them, that the
                                   ///< kernel has killed for want of memory.
  bool memory_limit_hit = false;  ///< The limit of the proc was reached; otherwise one above it, or
                                  ///< the memory of the whole machine.
};

struct EndWords {
  wire::Cause cause;
  std::string text;
};

/// A SIGKILL that this host did not send: the only end for which EndFacts::out_of_memory matters.
bool is_unexplained_kill(const ProcEnd& end, const EndFacts& facts);

/// How a process ended: "exit 3", "killed by SIGSEGV (core dumped)", "killed by SIGXCPU: ...". A
/// SIGKILL that this host did not send is said to be not sent by meshbus, possibly for want of
/// memory when nothing can tell (spec 4.9).
EndWords describe_end(const ProcEnd& end, const EndFacts& facts);

/// Why there is no process, in words: "cannot execute '/no/such/file': No such file or directory
/// (step: lookup) on host unix:/run/x".
std::string describe_spawn_failure(const os::SpawnFailure& failure, std::string_view program,
                                   std::string_view host);

}  // namespace meshbus::host

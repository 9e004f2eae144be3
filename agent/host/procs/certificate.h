#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/host/procs/proc_state.h"
#include "agent/keeper/spec.h"

namespace meshbus::host {

/// "SIGSEGV", "SIGRTMIN+3", "signal 99"
std::string signal_name(int signal);

/// How a process ended, in words: "exit 3", "killed by SIGSEGV (core dumped)". A SIGKILL that nobody here sent is said to come from
/// outside, possibly for want of memory: nothing here can tell (spec 4.9). Bit n of `sent_signals`: signal n was sent to it through us.
std::string describe_end(const ProcEnd& end, std::uint64_t sent_signals);

/// Why there is no process, in words: "cannot execute '/no/such/file': No such file or directory (step: lookup) on host unix:/run/x".
std::string describe_spawn_failure(const keeper::SpawnFailure& failure, std::string_view program, std::string_view host);

}  // namespace meshbus::host

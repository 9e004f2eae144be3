#pragma once

#include <optional>

namespace meshbus::os {

/// The OOM score of the roles of a host, where it may be set: they come last for the OOM killer.
inline constexpr int kRoleOomScore = -900;

/// Makes this process non-dumpable: no core dump, and no other process of its user may read its
/// memory or attach to it. Root still may. Executing a program undoes it, so procs are not
/// affected. Call it at the start of each role.
void forbid_dumps();

/// Sets the OOM score of this process to kRoleOomScore, which its children inherit. Returns the
/// score it had; nothing: it may not be lowered here (CAP_SYS_RESOURCE), and nothing is changed.
/// Call it before forbid_dumps(), after which /proc/self belongs to root.
std::optional<int> lower_oom_score();

}  // namespace meshbus::os

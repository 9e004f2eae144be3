#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "agent/stacks/process_reader.h"
#include "agent/stacks/stack_table.h"
#include "common/base/user_ids.h"

namespace meshbus::stacks {

/// Nothing takes longer: then it hangs.
inline constexpr unsigned kLookSeconds = 20;

/// What a look may take.
struct LookLimits {
  std::size_t room;                             ///< Bytes of its answer, about.
  std::chrono::steady_clock::time_point until;  ///< Nothing is begun later.
  bool is_kernel_only = false;
};

/// Reads these into `table`; what has no room or no time is left out. Returns what the reader left
/// to other users.
std::map<UserIds, std::vector<ProcessReader::Target>> look(
    const std::vector<ProcessReader::Target>& targets, const LookLimits& limits, StackTable& table);

/// The same by a process of that user, whose programs and memory these are, so that they can
/// mislead or take over nothing but it. Call it as root.
void look_as(const UserIds& user, const std::vector<ProcessReader::Target>& targets,
             const LookLimits& limits, StackTable& table);

}  // namespace meshbus::stacks

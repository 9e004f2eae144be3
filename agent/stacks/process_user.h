#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "common/base/user_ids.h"

namespace meshbus::stacks {

/// The user by whose rights a process runs, from the text of /proc/PID/status. One that runs a
/// setuid program counts as the user that started it, and that user may not look into it. Nothing:
/// this is no such text. Pure.
std::optional<UserIds> parse_process_user(std::string_view status);

/// Nothing: it has ended.
std::optional<UserIds> user_of_process(pid_t pid);

}  // namespace meshbus::stacks

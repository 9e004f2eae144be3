#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/os/spec.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

/// Finds a program the way execvp does: a name with a '/' is taken as it is (execve judges it), any
/// other is looked for in `path` (PATH of the command's own environment; nullopt: not set, then
/// /bin:/usr/bin). Relative entries count from `cwd` (empty: ours). Failures: lookup with ENOENT,
/// or EACCES when something of that name is there but may not be executed.
tl::expected<std::string, os::SpawnFailure> find_program(const std::string& program,
                                                         std::optional<std::string_view> path,
                                                         const std::string& cwd);

/// The file of that name where this program is, if it can be executed: for meshbus itself,
/// meshbus-mpi and its kin, and meshbus-torch-exec, which need not be in the PATH of a mesh and are
/// of the host's release. Nothing for all other names.
std::optional<std::string> find_beside_us(const std::string& program);

/// After execve said ENOENT (or EACCES, ELOOP...) for a file that is there: the interpreter that
/// its "#!" line or its ELF header names, when that is what is missing. Nothing when the file
/// itself is at fault.
std::optional<std::string> find_bad_interpreter(const std::string& file, const std::string& cwd,
                                                int error);

}  // namespace meshbus::keeper

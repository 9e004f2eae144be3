#pragma once

#include <string>
#include <vector>

#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// A machine that a host is to be started on, and how: see HostMesh::remote().
struct RemoteHost {
  std::string name;  ///< For people: "h1".
  /// Runs `meshbus host --remote` there, with its stdin and stdout for this process: {"ssh", "h1",
  /// "exec meshbus host --remote"}. Looked up in PATH.
  std::vector<std::string> command;
};

/// By OpenSSH, which goes by the user's configuration and never asks for a password. A destination
/// is [USER@]HOST[:PORT], as ssh knows it, IPv6 addresses in brackets; `program`: `meshbus` there,
/// empty: found in PATH there. Errors: parse_error; configuration_error when there is no
/// destination.
[[nodiscard]] Result<std::vector<RemoteHost>> ssh_hosts(
    const std::vector<std::string>& destinations, const std::string& program = {});

/// One for each node of the Slurm job that this process is part of, each in a job step of its own.
/// `program`: empty: that of this machine, by its path. Errors: not_exist: there is no such job
/// here; configuration_error: its nodes cannot be told.
[[nodiscard]] Result<std::vector<RemoteHost>> slurm_hosts(const std::string& program = {});

/// Whether this process is part of a Slurm job (SLURM_JOB_ID, SLURM_JOB_NODELIST), and not of a
/// step that srun has started.
bool is_in_slurm_job();

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/run/role_arguments.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// The hosts that torchrun's --nnodes asks for: "4", or "2:4".
struct TorchNodes {
  std::uint64_t least = 1;
  std::uint64_t most = 1;
};
/// Errors: parse_error.
Result<TorchNodes> parse_nodes(std::string_view text);
/// torchrun's --nproc_per_node: a number, "cpu" (one rank for each CPU), "gpu" (for each GPU), or
/// "auto": as gpu where there is one, else as cpu. Errors: parse_error.
Result<std::uint64_t> parse_ranks_per_node(std::string_view text, std::uint64_t cpus,
                                           std::uint64_t gpus);
/// The GPUs that this machine has device files of.
std::uint64_t count_gpus();

/// Has the ranks begin with the program that sets what torchrun would have set. `hosts`: those of
/// the run.
void wrap_torch(ProcSpec& spec, const RoleArguments& role, std::uint64_t hosts);
/// What is to be said of OMP_NUM_THREADS, in one line; nothing when the user has set it.
std::optional<std::string> threads_note(const ProcSpec& spec);

}  // namespace meshbus::cli

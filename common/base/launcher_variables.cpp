#include "common/base/launcher_variables.h"

#include <algorithm>
#include <array>

namespace meshbus {
namespace {

using Names = std::string_view;

constexpr auto kOwn = std::to_array<Names>(
    {"MESHBUS_BOOTSTRAP", "MESHBUS_ADDR", "MESHBUS_MESH", "MESHBUS_RESTARTS", "MESHBUS_PROGRESS",
     "MESHBUS_CPUS", "RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "LOCAL_WORLD_SIZE"});
constexpr auto kOwnPrefixes = std::to_array<Names>({"MESHBUS_RANK_", "MESHBUS_SIZE_"});

/// The places that other launchers give.
constexpr auto kPlaces = std::to_array<Names>({
    "MASTER_ADDR",
    "MASTER_PORT",
    "MESHBUS_LISTEN_PORT",
    // torchrun
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    // mpirun of Open MPI
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_MCA_initial_wdir",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
    // hydra of MPICH
    "HYDI_CONTROL_FD",
    "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
    // flux; FLUX_URI stays, its commands need it.
    "FLUX_JOB_ID",
    "FLUX_JOB_NNODES",
    "FLUX_JOB_SIZE",
    "FLUX_PMI_LIBRARY_PATH",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_TASK_RANK",
    // srun: what it sets for each task. What it says of the job and its step stays: a launcher in a
    // rank knows by it that it is inside of a step.
    "SLURM_GTIDS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_TASK_PID",
});
/// "JSM_" is jsrun; "OMPI_MCA_ess" and the two after it choose the launcher that Open MPI looks
/// for.
constexpr auto kPlacePrefixes = std::to_array<Names>(
    {"TORCHELASTIC_", "OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "PMI_",
     "PMIX_", "PRTE_", "JSM_", "MPI_LOCAL", "MESHBUS_MPI_", "MESHBUS_TORCH_", "MESHBUS_ROLE"});
/// These begin as the prefixes above do, but users set them.
constexpr auto kTunedPrefixes = std::to_array<Names>({"PMIX_MCA_", "PRTE_MCA_"});

template <std::size_t Count>
bool is_one_of(const std::array<Names, Count>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <std::size_t Count>
bool has_prefix(const std::array<Names, Count>& prefixes, std::string_view name) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool is_own_variable(std::string_view name) {
  return is_one_of(kOwn, name) || has_prefix(kOwnPrefixes, name);
}

bool is_place_variable(std::string_view name) {
  return is_own_variable(name) || is_one_of(kPlaces, name) ||
         (has_prefix(kPlacePrefixes, name) && !has_prefix(kTunedPrefixes, name));
}

}  // namespace meshbus

#pragma once

#include <string_view>

namespace meshbus {

/// Whether meshbus sets this variable for each proc, or means it for one process alone. A proc
/// never gets it from elsewhere, not even when a user asks for it.
bool is_own_variable(std::string_view name);

/// Whether this variable says which process of which job its reader is: one of ours, or one that
/// mpirun, hydra, srun, flux, jsrun or torchrun has set. A proc does not inherit it: below such a
/// launcher each of our ranks would take itself for the one rank that the launcher meant. What
/// users tune (OMPI_MCA_*, PMIX_MCA_*, UCX_*, NCCL_*) passes, and so does what they set for the
/// ranks by name.
bool is_place_variable(std::string_view name);

}  // namespace meshbus

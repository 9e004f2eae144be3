#pragma once

#include <string_view>

namespace meshbus::cli {

/// What `meshbus run` takes instead of a flag of mpirun, srun or torchrun, as words behind "it
/// takes"; empty for a flag of none of them. Pure.
std::string_view hint_for(std::string_view flag);

}  // namespace meshbus::cli

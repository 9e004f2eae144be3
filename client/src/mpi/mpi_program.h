#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus {

/// How a rank of an MPI program finds the others: what its MPI library speaks to its launcher.
enum class MpiWire {
  pmi1,  ///< MPICH and what is made of it: Intel MPI, MVAPICH, Cray.
  pmix,  ///< Open MPI.
  any,   ///< Not known: a Python program that imports mpi4py.
};

/// Why a command is taken for an MPI program.
struct MpiProgram {
  MpiWire wire = MpiWire::any;
  std::string file;     ///< The program, or the script.
  std::string because;  ///< "is linked with libmpi.so.40", for people.
};

/// What that library speaks, by its soname; nothing when it is no MPI library. Pure.
std::optional<MpiWire> wire_of_library(std::string_view soname);

/// Whether a Python program imports mpi4py's MPI without a condition: in a line that is not
/// indented. Pure.
bool imports_mpi4py(std::string_view source);

/// Looks at the command on this machine: a program that is linked with an MPI library, or a Python
/// program that imports mpi4py. What a shell or another program starts in its turn cannot be seen.
/// `variable` gives PATH and LD_LIBRARY_PATH.
std::optional<MpiProgram> find_mpi(const std::vector<std::string>& command,
                                   const std::function<std::string(const char*)>& variable);

}  // namespace meshbus

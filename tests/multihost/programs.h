#pragma once

#include <string>

#include "tests/support/environment.h"
#include "tests/support/process.h"

// Programs of others that some tests run, where they are installed.
namespace meshbus::test {

inline bool is_executable(const std::string& program) {
  return run({"sh", "-c", "command -v " + program}, in_time).status == ExitStatus::exited(0);
}

inline bool has_mpich() {
  static const bool has = is_executable("mpicc.mpich");
  return has;
}

inline bool has_open_mpi() {
  static const bool has = is_executable("mpicc.openmpi") && is_executable(bin("meshbus-mpi-pmix"));
  return has;
}

inline constexpr char kPython[] = "/usr/bin/python3";

inline bool has_torch() {
  static const bool has =
      run({kPython, "-c",
           "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"},
          in_time)
          .status == ExitStatus::exited(0);
  return has;
}

/// Those that are missing, in words; empty: none.
inline std::string missing_programs() {
  std::string missing;
  const auto add = [&](bool has, const char* name) {
    if (!has) missing += (missing.empty() ? "there is no " : ", no ") + std::string(name);
  };
  add(has_mpich(), "MPICH");
  add(has_open_mpi(), "Open MPI with meshbus-mpi-pmix");
  add(has_torch(), "PyTorch");
  return missing;
}

}  // namespace meshbus::test

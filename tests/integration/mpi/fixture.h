#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/integration/needs.h"
#include "tests/support/golden.h"
#include "tests/world/command_line.h"

namespace meshbus::test {

/// ring.c, compiled for one MPI library ("mpich", "openmpi").
class MpiRing {
 public:
  explicit MpiRing(const std::string& library) : path_(dir_ / "ring") {
    const auto compiled = run(
        {"mpicc." + library, "-O1", "-o", path_, source_dir() + "/tests/integration/mpi/ring.c"},
        in_time);
    if (compiled.status != ExitStatus::exited(0))
      throw std::runtime_error("mpicc." + library + ": " + compiled.err);
  }
  const std::string& path() const { return path_; }

 private:
  TempDir dir_;
  std::string path_;
};

/// `meshbus run --no-prefix OPTIONS... -- COMMAND...`, to its end.
inline Finished run_job_of(const Words& options, const Words& command) {
  Words words = {"run", "--no-prefix"};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return run_cli(words);
}

/// What MPI jobs can leave in places that are not the test program's own.
inline Words mpi_leftovers() {
  Words found;
  for (const char* place : {"/dev/shm", "/tmp"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(place, ignored)) {
      const auto name = entry.path().filename().string();
      for (const char* known : {"meshbus-mpi-", "vader_segment", "sm_segment", "ompi.", "pmix-"})
        if (name.starts_with(known)) found.push_back(entry.path().string());
    }
  }
  return sorted(std::move(found));
}
/// Which of them there are now and were not before, a line each.
inline std::string mpi_leftovers_since(const Words& before) {
  std::string added;
  for (const auto& path : mpi_leftovers()) {
    if (!std::ranges::binary_search(before, path)) added += path + "\n";
  }
  return added;
}

}  // namespace meshbus::test

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace meshbus::test {

/// A real Slurm on the hosts of a lab: slurmctld on the first one, slurmd on all, one munged for
/// all of them, whose socket is a file. Its end of scope ends all of it.
class SlurmCluster {
 public:
  /// In plain words why there can be none here; empty when there can.
  static const std::string& why_not();

  explicit SlurmCluster(const Lab& lab);
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  /// Starts something on the first host that talks to it: salloc, scancel.
  Process start(std::vector<std::string> argv) const;
  Finished run(std::vector<std::string> argv, std::chrono::milliseconds deadline) const;
  /// The output of the jobs, for failure messages.
  std::string log() const;

 private:
  std::string conf() const { return dir_ / "slurm.conf"; }
  void write_conf() const;

  const Lab& lab_;
  TempDir dir_;
  std::unique_ptr<Process> munged_;
  std::vector<std::unique_ptr<Process>> daemons_;
};

}  // namespace meshbus::test

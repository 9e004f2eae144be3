// Flags of mpirun, srun and torchrun are answered by what meshbus run takes instead.
#include "cli/run/foreign_flags.h"

#include <doctest/doctest.h>

using meshbus::cli::hint_for;

TEST_CASE("foreign_flags: a flag of another launcher has a hint, however it is written") {
  CHECK(hint_for("-np") == "-n N, the ranks in all");
  CHECK(hint_for("--np") == "-n N, the ranks in all");
  CHECK(hint_for("--ntasks=4") == "-n N, the ranks in all");
  CHECK(hint_for("--nproc_per_node=2") == "--per-host N, the ranks on each host");
  CHECK(hint_for("--nproc-per-node") == "--per-host N, the ranks on each host");
  CHECK(hint_for("--nnodes").starts_with("--hosts N"));
  CHECK(hint_for("-N").starts_with("--hosts N"));
  CHECK(hint_for("-genv").starts_with("-x NAME"));
  CHECK(hint_for("--gres=gpu:2").starts_with("no such flag: ask Slurm"));
  CHECK(hint_for("--rdzv_endpoint=h:1").starts_with("no such flag: each rank gets MASTER_ADDR"));
  CHECK(hint_for("--tee").starts_with("--set logs.directory=DIR"));
  CHECK(hint_for("-launcher").starts_with("--hosts ssh:"));
  CHECK(hint_for("--wdir").find("cd DIR") != std::string_view::npos);
}

TEST_CASE("foreign_flags: other words have none") {
  for (const auto* word : {"", "-", "--", "np", "--nonsense", "-z", "--n"}) {
    CAPTURE(word);
    CHECK(hint_for(word).empty());
  }
}

// What a rank does not inherit from a launcher that started ours.
#include <doctest/doctest.h>

#include "tests/world/command_line.h"

using namespace meshbus::test;

TEST_CASE("mpi: ranks of a launcher that mpirun or torchrun started do not inherit its place") {
  const Words names = {
      "PMI_RANK",       "PMIX_RANK",  "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID",
      "JSM_JSRUN_PORT", "GROUP_RANK", "SLURM_PROCID"};
  std::vector<std::pair<std::string, std::optional<std::string>>> variables = {
      {"OMPI_MCA_btl", "self"}};
  std::string script = "echo $OMPI_MCA_btl";
  for (const auto& name : names) {
    variables.emplace_back(name, "outer");
    script += "${" + name + "+ " + name + "=$" + name + "}";
  }
  const Words command = {"--", "sh", "-c", script};
  Words words = {"run", "--no-prefix"};
  words.insert(words.end(), command.begin(), command.end());
  auto finished = run_cli(words, {.environment = variables});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "self\n");

  // What a user says by name is meant.
  words = {"run", "--no-prefix", "-x", "PMI_RANK=7"};
  words.insert(words.end(), command.begin(), command.end());
  finished = run_cli(words, {.environment = variables});
  CHECK(finished.out == "self PMI_RANK=7\n");
}

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/lab/lab.h"
#include "tests/multihost/programs.h"
#include "tests/multihost/slurm_cluster.h"
#include "tests/support/environment.h"
#include "tests/support/leftovers.h"

int main(int argc, char** argv) {
  const meshbus::test::Environment environment;
  doctest::Context context(argc, argv);
  if (const std::string& reason = meshbus::test::Lab::why_not(); !reason.empty()) {
    std::printf("all multihost tests are skipped: %s\n", reason.c_str());
    context.addFilter("test-case-exclude", "*");  // counted in doctest's summary
  } else {
    std::string missing = meshbus::test::missing_programs();
    if (const std::string& slurm = meshbus::test::SlurmCluster::why_not(); !slurm.empty())
      missing += (missing.empty() ? "" : "; ") + ("there is no Slurm: " + slurm);
    if (!missing.empty()) std::printf("some multihost tests are skipped: %s\n", missing.c_str());
  }
  meshbus::test::check_every_test_case(std::chrono::seconds(180));
  return context.run();
}

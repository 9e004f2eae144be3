#include "agent/host/model/environment.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace meshbus;
using namespace meshbus::host;

namespace {

MeshSpec two_ranks() {
  return {.mesh = *Name::make("train"),
          .region = Region(*Extent::parse("proc=2")),
          .hosts = {HostAddr::local(1)},
          .owner = *ProcId::parse("unix:/run/m/a,client-13Se1Maqzryj"),
          .command = {},
          .master_address = {},
          .config = {},
          .block = {0, 2},
          .create_ranks = {},
          .input_ranks = {}};
}

bool has(const Environment& environment, const std::string& entry) {
  return std::find(environment.begin(), environment.end(), entry) != environment.end();
}

}  // namespace

TEST_CASE("environment: the place that a launcher gave the host is not that of its procs") {
  const auto environment = shared_environment(
      two_ranks(), {"PMI_RANK=3", "RANK=3", "PMIX_NAMESPACE=x", "TORCHELASTIC_RUN_ID=y", "A=b"});
  CHECK(has(environment, "A=b"));
  CHECK(has(environment, "WORLD_SIZE=2"));
  for (const auto& entry : environment) {
    CAPTURE(entry);
    CHECK_FALSE(entry.starts_with("PMI"));
    CHECK_FALSE(entry.starts_with("RANK="));
    CHECK_FALSE(entry.starts_with("TORCHELASTIC"));
  }
}

TEST_CASE("environment: what a user sets for the ranks reaches them, but their rank") {
  auto spec = two_ranks();
  spec.command.environment = {{"PMI_RANK", "3"}, {"RANK", "3"}};
  const auto environment = shared_environment(spec, {});
  CHECK(has(environment, "PMI_RANK=3"));
  CHECK_FALSE(has(environment, "RANK=3"));
}

// MPI programs whose ranks meet over a network (spec 17.1).
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "tests/multihost/programs.h"
#include "tests/multihost/site.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Six ranks on three hosts with keys: they meet, they end with a host that is lost, and with a
/// killed rank. `may_hang`: when they have met, in MPI_Finalize.
void check_job(const std::string& library, bool may_hang) {
  const TempDir dir;
  const auto ring = dir / "ring";
  const auto compiled =
      run({"mpicc." + library, "-O1", "-o", ring, source_dir() + "/tests/integration/mpi/ring.c"},
          in_time);
  INFO(compiled.err);
  REQUIRE(compiled.status == ExitStatus::exited(0));
  Site site(3, WithKeys::yes);
  const auto job = [&](const Words& command) {
    Words words = {"--mpi", "--no-prefix", "--per-host", "rank=2", "--set", "delivery.limit=3s",
                   "--set", "lease=5s",    "--grace",    "1s",     "--",    ring};
    words.insert(words.end(), command.begin(), command.end());
    return site.desk().start(site.run_words(words), site.operator_options());
  };
  auto whole = job({});
  INFO(whole.describe());
  CHECK(wait_until([&] { return whole.out().find("right\n") != std::string::npos; }, 1min));
  if (may_hang) {
    whole.send_signal(SIGTERM);
    whole.wait_exit(1min);
  } else {
    CHECK(whole.wait_exit(1min) == ExitStatus::exited(0));
  }
  for (int rank = 0; rank < 6; ++rank)
    CHECK(whole.out().find("rank " + std::to_string(rank) + " of 6, 2 here") != std::string::npos);

  auto killed = job({"kill", "3", "0"});
  const auto status = killed.wait_exit(1min);
  INFO(killed.describe());
  CHECK(status == ExitStatus::exited(128 + SIGKILL));
  CHECK(killed.err().find("first failure: rank 3 ") != std::string::npos);

  auto lost = job({"hang", "1", "0"});
  REQUIRE(wait_until(
      [&] {
        return lost.out().find("rank 5 of 6") != std::string::npos &&
               lost.out().find("rank 0 of 6") != std::string::npos;
      },
      1min));
  site.lab.power_off(2);
  const auto end = lost.wait_exit(1min);
  INFO(lost.describe());
  CHECK(end == ExitStatus::exited(123));
  CHECK(lost.err().find(site.address(2)) != std::string::npos);
  for (std::size_t host = 0; host < 2; ++host)
    CHECK(wait_until([&] { return site.procs_on(host, ring).empty(); }, in_time));
}

}  // namespace

TEST_CASE("multihost: ranks of MPICH meet over three hosts, and end with one that is lost" *
          doctest::skip(!has_mpich())) {
  // MPICH before 4.2, over UCX and between hosts: a rank may wait for another one that has nothing
  // left but a barrier (pmodels/mpich, pull request 6596).
  check_job("mpich", true);
}

TEST_CASE("multihost: ranks of Open MPI meet over three hosts, and end with one that is lost" *
          doctest::skip(!has_open_mpi())) {
  check_job("openmpi", false);
}

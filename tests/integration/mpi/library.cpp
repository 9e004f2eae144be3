// ProcSpec::mpi: what `run --mpi` does, for launchers that use the library.
#include <doctest/doctest.h>

#include <csignal>
#include <mutex>
#include <string>

#include "meshbus/client.h"
#include "tests/integration/mpi/fixture.h"
#include "tests/support/process_table.h"
#include "tests/support/wait.h"
#include "tests/world/client_library.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// Two hosts of this machine, and what four MPI ranks on them wrote.
struct Job {
  explicit Job(const std::string& library) : ring(library) {}

  Result<ProcMesh> spawn(std::vector<std::string> words, Mpi mpi = Mpi::automatic,
                         RestartPolicy restart = {}) {
    words.insert(words.begin(), ring.path());
    return hosts.spawn_n("job", 4,
                         {.command = std::move(words),
                          .output = OutputMode::stream,
                          .restart = std::move(restart),
                          .mpi = mpi},
                         {.on_failure = [](const RankReport&) {},
                          .on_output =
                              [this](std::uint64_t, Stream, std::string_view bytes) {
                                const std::lock_guard lock(mutex);
                                output += bytes;
                              },
                          .on_end =
                              [this](const MeshOutcome& outcome) {
                                const std::lock_guard lock(mutex);
                                told = outcome.trouble;
                              }});
  }
  std::string written() {
    const std::lock_guard lock(mutex);
    return output;
  }

  MpiRing ring;
  Words before = mpi_leftovers();
  std::mutex mutex;
  std::string output;
  std::optional<JobTrouble> told;
  Context context = must(Context::create());
  HostMesh hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
};

void check_library(const std::string& library) {
  Job job(library);
  {
    auto mesh = must(job.spawn({}));
    const auto outcome = must(mesh.wait(in_time));
    CHECK(outcome.exit_code() == 0);
    CHECK_FALSE(outcome.trouble);
    CHECK(job.written().find("right") != std::string::npos);
    CHECK(job.written().find("rank 3 of 4, 2 here") != std::string::npos);
    const auto refused = mesh.grow();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().to_string().find("MPI job") != std::string::npos);
  }
  {
    auto mesh = must(job.spawn({"abort", "3", "7"}));
    const auto outcome = must(mesh.wait(in_time));
    CHECK(outcome.exit_code() == 7);
    REQUIRE(outcome.trouble);
    CHECK(outcome.trouble->words == "MPI_Abort(7) by rank 3");
    CHECK(outcome.trouble->rank == 3);
    REQUIRE(job.told);
    CHECK(job.told->words == outcome.trouble->words);
  }
  {
    // No rank has failed, and the others would wait for ever.
    auto mesh = must(job.spawn({"exit", "2", "0"}));
    const auto outcome = must(mesh.wait(in_time));
    CHECK(outcome.exit_code() == 1);
    REQUIRE(outcome.trouble);
    CHECK(outcome.trouble->words.starts_with(
        "rank 2 ended with exit 0 between MPI_Init and MPI_Finalize"));
    const auto& other = outcome.ranks.at(0);
    if (library == "mpich") {
      CHECK(other.because == 2);
    } else {
      // Ranks of Open MPI 5 that lose a peer abort, perhaps before a stop reaches them.
      CHECK((other.because || other.is_failure()));
    }
  }
  {
    auto mesh = must(job.spawn({"exit", "1", "5"}));
    const auto failed = must(mesh.wait_for_failure(in_time));
    if (library == "mpich") CHECK(failed.exit_code() == 5);
    must(mesh.stop());
    // A rank of Open MPI 5 that has lost this one may be heard of first.
    CHECK(must(mesh.wait(in_time)).exit_code() == 5);
  }
  must(job.hosts.shutdown());
  CHECK(mpi_leftovers_since(job.before) == "");
}

}  // namespace

TEST_CASE("mpi: the library starts a job of MPICH and says why it ended" *
          doctest::test_suite(need::mpich)) {
  check_library("mpich");
}

TEST_CASE("mpi: the library starts a job of Open MPI and says why it ended" *
          doctest::test_suite(need::open_mpi)) {
  check_library("openmpi");
}

TEST_CASE("mpi: the library starts a gang again, as a job of its own" *
          doctest::test_suite(need::mpich)) {
  Job job("mpich");
  auto mesh = must(job.hosts.spawn_n(
      "job", 4,
      {.command = {"sh", "-c", "[ $MESHBUS_RESTARTS = 0 ] && exec \"$0\" abort 0 4; exec \"$0\"",
                   job.ring.path()},
       .restart = {.on = RestartPolicy::On::failure, .budget = 2, .gang = Gang::all, .delay = 10ms},
       .mpi = Mpi::pmi1},
      {.on_failure = [](const RankReport&) {}}));
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 0);
  CHECK_FALSE(outcome.trouble);
  for (const auto& rank : outcome.ranks) CHECK(rank.restarts == 1);
}

TEST_CASE("mpi: a lost helper ends a job of the library, and what does not fit is refused" *
          doctest::test_suite(need::mpich)) {
  Job job("mpich");
  const auto refusal = [&](ProcSpec spec) {
    spec.command = {job.ring.path()};
    const auto mesh = job.hosts.spawn_n("job", 2, std::move(spec));
    REQUIRE_FALSE(mesh);
    return mesh.error().to_string();
  };
  CHECK(refusal({.mpi = Mpi::pmix}).find("which needs --mpi=pmi1") != std::string::npos);
  CHECK(refusal({.restart = {.on = RestartPolicy::On::failure}, .mpi = Mpi::automatic})
            .find("restarts need Gang::all") != std::string::npos);
  CHECK(refusal({.kind = ProcKind::mesh, .mpi = Mpi::automatic}).find("plain procs") !=
        std::string::npos);

  auto mesh = must(job.spawn({"hang", "1", "0"}));
  REQUIRE(
      wait_until([&] { return job.written().find("rank 3 of 4") != std::string::npos; }, in_time));
  for (const auto& process : own_processes_with("meshbus-mpi")) {
    if (process.command == "meshbus-mpi") {
      ::kill(process.pid, SIGKILL);
      break;
    }
  }
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 125);
  REQUIRE(outcome.trouble);
  CHECK(outcome.trouble->words.starts_with("the MPI helper on unix:"));
  must(job.hosts.shutdown());
  CHECK(mpi_leftovers_since(job.before) == "");
}

TEST_CASE("mpi: examples/mpi_job.cpp exits as its job does" * doctest::test_suite(need::mpich)) {
  const MpiRing ring("mpich");
  const auto finished = run({bin("mpi_job"), ring.path()}, in_time);
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out.find("rank 3 of 4") != std::string::npos);
  const auto failed = run({bin("mpi_job"), ring.path(), "exit", "2", "3"}, in_time);
  INFO(failed.err);
  CHECK(failed.status == ExitStatus::exited(3));
  const auto aborted = run({bin("mpi_job"), ring.path(), "abort", "2", "9"}, in_time);
  INFO(aborted.err);
  CHECK(aborted.status == ExitStatus::exited(9));
  CHECK(aborted.err.find("MPI_Abort(9) by rank 2\n") != std::string::npos);
}

// What `meshbus run` says of MPI programs before it starts anything.
#include <doctest/doctest.h>

#include "tests/integration/mpi/fixture.h"

using namespace meshbus::test;

TEST_CASE("mpi: a program that is linked with MPI is named when --mpi is missing" *
          doctest::test_suite(need::mpich)) {
  const MpiRing ring("mpich");
  auto finished = run_job_of({"-n", "2"}, {ring.path()});
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.out == "");
  CHECK(finished.err.find(ring.path() + " is linked with libmpich.so.12, and without --mpi each of "
                                        "its 2 ranks would be rank 0 of 1") != std::string::npos);
  // One rank is right as it is, and so are single ranks that were asked for.
  finished = run_job_of({"-n", "1"}, {ring.path()});
  CHECK(finished.out == "rank 0 of 1, 1 here\nright\n");
  finished = run_job_of({"--mpi=none", "-n", "2"}, {ring.path()});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) ==
        Words{"rank 0 of 1, 1 here", "rank 0 of 1, 1 here", "right", "right"});
}

TEST_CASE("mpi: what does not fit is refused before anything starts" *
          doctest::test_suite(need::mpich)) {
  const MpiRing ring("mpich");
  const auto refusal = [&](Words options) {
    const auto finished = run_job_of(options, {ring.path()});
    CHECK(finished.status == ExitStatus::exited(2));
    CHECK(finished.out == "");
    return finished.err;
  };
  CHECK(refusal({"--mpi", "--keep-going"}).find("do not go together") != std::string::npos);
  CHECK(refusal({"--mpi", "--restart", "on-failure"}).find("need --gang all") != std::string::npos);
  CHECK(refusal({"--mpi=pmix"}).find("which needs --mpi=pmi1") != std::string::npos);
  CHECK(refusal({"--mpi=slurm"}).find("--mpi") != std::string::npos);
}

TEST_CASE("mpi: a command that is no MPI program runs with --mpi as without") {
  const auto finished = run_job_of({"--mpi=pmi1", "--hosts", "2", "-n", "3"},
                                   {"sh", "-c", "echo $PMI_RANK of $PMI_SIZE"});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) == Words{"0 of 3", "1 of 3", "2 of 3"});
  const auto missing = run_job_of({"--mpi=pmi1"}, {"/no/such/program"});
  CHECK(missing.status == ExitStatus::exited(127));
}

TEST_CASE("mpi: ranks of Open MPI share the session of their host, in which they yield" *
          doctest::test_suite(need::open_mpi)) {
  // Where sessions are groups of the scheduler, sched_yield() does nothing for other ones. Each
  // rank has a process group of its own all the same.
  const std::string script = "read -r line </proc/$$/stat; set -- $line; [ $5 = $$ ] && echo $6";
  const auto finished = run_job_of({"--mpi=pmix", "-n", "3"}, {"sh", "-c", script});
  CHECK(finished.status == ExitStatus::exited(0));
  const auto sessions = lines_of(finished.out);
  REQUIRE(sessions.size() == 3);
  CHECK(sessions == Words(3, sessions[0]));
}

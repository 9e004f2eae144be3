// `meshbus run --mpi`: unmodified programs of MPICH and Open MPI.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/integration/mpi/fixture.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

void check_ring(const std::string& library) {
  const MpiRing ring(library);
  const auto before = mpi_leftovers();
  const auto one_host = run_job_of({"--mpi", "-n", "3"}, {ring.path()});
  INFO(one_host.err);
  CHECK(one_host.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(one_host.out)) ==
        Words{"rank 0 of 3, 3 here", "rank 1 of 3, 3 here", "rank 2 of 3, 3 here", "right"});
  const auto two_hosts = run_job_of({"--mpi", "--hosts", "2", "-n", "3"}, {ring.path()});
  INFO(two_hosts.err);
  CHECK(two_hosts.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(two_hosts.out)) ==
        Words{"rank 0 of 3, 2 here", "rank 1 of 3, 2 here", "rank 2 of 3, 1 here", "right"});
  CHECK(mpi_leftovers_since(before) == "");
}

void check_ends(const std::string& library) {
  const MpiRing ring(library);
  const auto before = mpi_leftovers();
  const Words hosts = {"--mpi", "--hosts", "2", "-n", "4"};

  auto finished = run_job_of(hosts, {ring.path(), "abort", "3", "7"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(7));
  CHECK(last_line(finished.err) == "meshbus: first cause: MPI_Abort(7) by rank 3");

  finished = run_job_of(hosts, {ring.path(), "abort", "1", "0"});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(1));

  finished = run_job_of(hosts, {ring.path(), "exit", "3", "5"});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(5));
  CHECK(last_line(finished.err).find("first failure: rank 3 ") != std::string::npos);

  // The others would wait for ever, and the exit code of the rank says nothing.
  finished = run_job_of(hosts, {ring.path(), "exit", "2", "0"});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  CHECK(last_line(finished.err)
            .find("first cause: rank 2 ended with exit 0 between MPI_Init and "
                  "MPI_Finalize") != std::string::npos);

  // Neither does that of one that never joins the others.
  finished = run_job_of(hosts, {"sh", "-c", "[ $RANK = 1 ] && exit 0; exec " + ring.path()});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  CHECK(last_line(finished.err)
            .find("first cause: rank 1 ended with exit 0 and has not called MPI_Init") !=
        std::string::npos);
  // Programs that call it nowhere are no jobs that hang.
  finished = run_job_of(hosts, {"true"});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));

  finished = run_job_of(hosts, {ring.path(), "kill", "1", "9"});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(137));
  CHECK(last_line(finished.err).find("first failure: rank 1 ") != std::string::npos);
  CHECK(mpi_leftovers_since(before) == "");
}

void check_restart(const std::string& library) {
  const MpiRing ring(library);
  const auto before = mpi_leftovers();
  const auto finished = run_job_of(
      {"--mpi", "--hosts", "2", "-n", "4", "--restart", "on-failure:2", "--restart-delay", "10ms",
       "--gang", "all"},
      {"sh", "-c",
       "case $MESHBUS_RESTARTS in 0) exec \"$0\" kill 3 9;; 1) exec \"$0\" abort 0 4;; *) exec "
       "\"$0\";; esac",
       ring.path()});
  CAPTURE(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.err.find("(restart 2 of 2)") != std::string::npos);
  const auto lines = lines_of(finished.out);
  CHECK(std::ranges::count(lines, "right") == 1);
  CHECK(std::ranges::count(lines, "rank 0 of 4, 2 here") == 3);

  const auto given_up = run_job_of({"--mpi", "--hosts", "2", "-n", "4", "--restart", "on-failure:1",
                                    "--restart-delay", "10ms", "--gang", "all"},
                                   {ring.path(), "abort", "3", "7"});
  CAPTURE(given_up.err);
  CHECK(given_up.status == ExitStatus::exited(7));
  CHECK(last_line(given_up.err) == "meshbus: first cause: MPI_Abort(7) by rank 3");
  CHECK(mpi_leftovers_since(before) == "");
}

/// The helper of the one host that runs.
std::optional<pid_t> helper_of(const std::string& program) {
  for (const auto& process : own_processes_with(program)) {
    if (process.command == program) return process.pid;
  }
  return std::nullopt;
}

void check_lost_helper(const std::string& library, const std::string& helper) {
  const MpiRing ring(library);
  const auto before = mpi_leftovers();
  Process job(cli({"run", "--no-prefix", "--mpi", "-n", "2", "--", ring.path(), "hang", "1", "0"}));
  job.wait_for_output("rank 1 of 2", in_time);
  const auto pid = helper_of(helper);
  REQUIRE(pid);
  ::kill(*pid, SIGKILL);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(125));
  INFO(job.err());
  CHECK(job.err().find("the MPI helper on unix:") != std::string::npos);
  CHECK(mpi_leftovers_since(before) == "");
}

}  // namespace

TEST_CASE("mpi: programs of MPICH run on one host and on two" * doctest::test_suite(need::mpich)) {
  check_ring("mpich");
}
TEST_CASE("mpi: programs of Open MPI run on one host and on two" *
          doctest::test_suite(need::open_mpi)) {
  check_ring("openmpi");
}

TEST_CASE("mpi: the first cause ends a job of MPICH and gives the exit code" *
          doctest::test_suite(need::mpich)) {
  check_ends("mpich");
}
TEST_CASE("mpi: the first cause ends a job of Open MPI and gives the exit code" *
          doctest::test_suite(need::open_mpi)) {
  check_ends("openmpi");
}

TEST_CASE("mpi: a gang of MPICH ranks starts again as a job of its own" *
          doctest::test_suite(need::mpich)) {
  check_restart("mpich");
}
TEST_CASE("mpi: a gang of Open MPI ranks starts again as a job of its own" *
          doctest::test_suite(need::open_mpi)) {
  check_restart("openmpi");
}

TEST_CASE("mpi: a job whose helper is killed ends, says so, and leaves nothing: MPICH" *
          doctest::test_suite(need::mpich)) {
  check_lost_helper("mpich", "meshbus-mpi");
}
TEST_CASE("mpi: a job whose helper is killed ends, says so, and leaves nothing: Open MPI" *
          doctest::test_suite(need::open_mpi)) {
  check_lost_helper("openmpi", "meshbus-mpi-pmix");
}

TEST_CASE("mpi: MPI_Comm_spawn of Open MPI is refused, and the job ends" *
          doctest::test_suite(need::open_mpi)) {
  const MpiRing ring("openmpi");
  const auto finished = run_job_of({"--mpi", "-n", "2"}, {ring.path(), "spawn", "1", "0"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  CHECK(last_line(finished.err) ==
        "meshbus: first cause: rank 1 called MPI_Comm_spawn, which --mpi does not have");
}
TEST_CASE("mpi: MPI_Comm_spawn of MPICH fails, and the job ends" *
          doctest::test_suite(need::mpich)) {
  const MpiRing ring("mpich");
  const auto finished = run_job_of({"--mpi", "-n", "2"}, {ring.path(), "spawn", "1", "0"});
  INFO(finished.err);
  CHECK(finished.status != ExitStatus::exited(0));
  CHECK(finished.err.find("spawn") != std::string::npos);
}

TEST_CASE("mpi: Ctrl-C ends a job that hangs, and nothing is left" *
          doctest::test_suite(need::open_mpi)) {
  const MpiRing ring("openmpi");
  const auto before = mpi_leftovers();
  Process job(cli({"run", "--no-prefix", "--mpi", "-n", "2", "--", ring.path(), "hang", "1", "0"}));
  job.wait_for_output("rank 1 of 2", in_time);
  ::kill(job.pid(), SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(mpi_leftovers_since(before) == "");
}

TEST_CASE("mpi: a job whose launcher is killed leaves nothing, either" *
          doctest::test_suite(need::open_mpi)) {
  const MpiRing ring("openmpi");
  const auto before = mpi_leftovers();
  Process job(cli({"run", "--no-prefix", "--mpi", "-n", "2", "--", ring.path(), "hang", "1", "0"}));
  job.wait_for_output("rank 1 of 2", in_time);
  job.send_signal(SIGKILL);
  job.wait_exit(in_time);
  CHECK(wait_until([&] { return mpi_leftovers_since(before).empty(); }, in_time));
}

TEST_CASE("mpi: more ranks than CPUs begin together, so that none waits with a CPU for the last" *
          doctest::test_suite(need::open_mpi)) {
  const auto ranks = std::thread::hardware_concurrency() + 16;
  // Says when its process was started, and when its program began, in ticks since the boot.
  const std::string script =
      "read -r now rest </proc/uptime; read -r line </proc/$$/stat; set -- $line; "
      "echo ${22} ${now%.*}${now#*.}; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
  const auto finished =
      run_job_of({"--mpi=pmix", "-n", std::to_string(ranks)}, {"sh", "-c", script});
  INFO(finished.err);
  INFO(finished.out);
  std::uint64_t last_start = 0;
  auto first_begin = std::numeric_limits<std::uint64_t>::max();
  std::istringstream out(finished.out);
  std::size_t count = 0;
  for (std::uint64_t started = 0, began = 0; out >> started >> began; ++count) {
    last_start = std::max(last_start, started);
    first_begin = std::min(first_begin, began);
  }
  CHECK(count == ranks);
  CHECK(last_start <= first_begin);
}

TEST_CASE("mpi: programs that use mpi4py" * doctest::test_suite(need::mpi4py)) {
  const TempDir dir;
  const auto script = dir.write("sum.py",
                                "from mpi4py import MPI\n"
                                "all = MPI.COMM_WORLD\n"
                                "print(all.Get_size(), all.allreduce(all.Get_rank()))\n");
  const auto without = run_job_of({"-n", "2"}, {"/usr/bin/python3", script});
  CHECK(without.status == ExitStatus::exited(2));
  CHECK(without.err.find(script + " imports mpi4py") != std::string::npos);
  const auto finished =
      run_job_of({"--mpi", "--hosts", "2", "-n", "4"}, {"/usr/bin/python3", script});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "4 6\n4 6\n4 6\n4 6\n");
}

TEST_CASE("mpi: a launcher under a controller goes on alone, and starts its job again" *
          doctest::test_suite(need::mpich)) {
  const MpiRing ring("mpich");
  const StandingHost one, two;
  const Process controller({bin("meshbus-controller"), "--hosts", one.address()});
  const auto spawn = [&](const std::string& name, const Words& command) {
    Words words = {"spawn",
                   name,
                   "--hosts",
                   one.address(),
                   "-n",
                   "1",
                   "--wait-for-controller",
                   "--restart",
                   "on-failure:1",
                   "--",
                   bin("meshbus"),
                   "run",
                   "--mpi",
                   "--hosts",
                   one.address() + "," + two.address(),
                   "--per-host",
                   "rank=2",
                   "--",
                   ring.path()};
    words.insert(words.end(), command.begin(), command.end());
    const auto done = run_cli(words);
    INFO(done.err);
    REQUIRE(done.status == ExitStatus::exited(0));
  };
  const auto logs = [&](const std::string& name) {
    const auto written = run_cli({"logs", name, "--hosts", one.address()});
    return written.out + written.err;
  };
  spawn("good", {});
  CHECK(wait_until([&] { return logs("good").find("] right\n") != std::string::npos; }, in_time));
  spawn("bad", {"abort", "3", "7"});
  const std::string cause = "first cause: MPI_Abort(7) by rank 3";
  CHECK(wait_until(
      [&] {
        const auto all = logs("bad");
        const auto first = all.find(cause);
        return first != std::string::npos && all.find(cause, first + 1) != std::string::npos;
      },
      in_time));
}

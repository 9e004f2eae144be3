// `meshbus run` inside of a Slurm job, with a real slurmctld and slurmds.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/lab/lab.h"
#include "tests/multihost/slurm_cluster.h"
#include "tests/support/environment.h"
#include "tests/support/wait.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

constexpr std::size_t kNodes = 3;

/// Nothing of meshbus, and nothing of a job, on a node.
bool is_clean(const Lab::Host& host, const std::string& mark) {
  const auto found = host.processes();
  return std::none_of(found.begin(), found.end(), [&](const std::string& one) {
    return one.find("meshbus") != std::string::npos || one.find(mark) != std::string::npos;
  });
}

/// The folder of the Python package, which is of the release preset; empty: it was not built, or
/// is being built.
std::string python_package() {
  std::error_code none;
  const auto folder = std::filesystem::canonical(
      std::filesystem::path(bin("meshbus")).parent_path() / "../../release/python", none);
  if (none) return {};
  const auto tried = run({"env", "PYTHONPATH=" + folder.string(), "/usr/bin/python3", "-c",
                          "import meshbus._client, meshbus._proc; meshbus.versions()"},
                         in_time);
  return tried.status == ExitStatus::exited(0) ? folder.string() : std::string();
}

/// A job of one rank on each of three nodes, each of which stands until it is ended.
struct SlurmJob {
  static constexpr const char* mark = "stands-in-slurm";
  Lab lab{kNodes};
  SlurmCluster cluster{lab};
  Process salloc =
      cluster.start({"salloc", "-N3", "--", bin("meshbus"), "run", "--no-prefix", "--", "sh", "-c",
                     "echo up $(hostname); while :; do sleep 1; done", mark});
  SlurmJob() {
    wait_until(
        [this] {
          return std::count(salloc.out().begin(), salloc.out().end(), '\n') == 3 ||
                 !salloc.is_running();
        },
        in_time);
    INFO(salloc.describe() << cluster.log());
    REQUIRE(salloc.out().find("up host2") != std::string::npos);
  }
  bool is_clean_everywhere(std::size_t nodes) const {
    for (std::size_t i = 0; i < nodes; ++i) {
      if (!is_clean(lab.host(i), mark)) return false;
    }
    return true;
  }
};

}  // namespace

TEST_CASE("slurm: a run without host flags is on the nodes of its job" *
          doctest::skip(!SlurmCluster::why_not().empty())) {
  Lab lab(kNodes);
  const SlurmCluster cluster(lab);
  const auto finished =
      cluster.run({"salloc", "-N3", "--", bin("meshbus"), "run", "--per-host", "gpus=2",
                   "--no-prefix", "--", "sh", "-c", "echo $RANK $(hostname) ${MESHBUS_ADDR%%,*}"},
                  in_time);
  INFO(finished.out << finished.err << cluster.log());
  CHECK(finished.status == ExitStatus::exited(0));
  std::set<std::string> lines;
  std::istringstream in(finished.out);
  for (std::string line; std::getline(in, line);) lines.insert(line.substr(0, line.rfind(':')));
  std::set<std::string> expected;
  for (std::size_t rank = 0; rank < 2 * kNodes; ++rank) {
    const auto host = lab.host(rank / 2);
    expected.insert(std::to_string(rank) + " " + host.name() + " tcp:" + host.address());
  }
  CHECK(lines == expected);
  for (std::size_t i = 0; i < kNodes; ++i)
    CHECK(wait_until([&] { return is_clean(lab.host(i), "echo $RANK"); }, in_time));
  // What a rank ends with is what salloc ends with.
  CHECK(cluster
            .run({"salloc", "-N2", "--", bin("meshbus"), "run", "--", "sh", "-c",
                  "exit $((RANK * 7))"},
                 in_time)
            .status == ExitStatus::exited(7));
}

TEST_CASE("slurm: a Python launcher is on the nodes of its job" *
          doctest::skip(!SlurmCluster::why_not().empty())) {
  const auto package = python_package();
  if (package.empty()) {
    MESSAGE("left out: there is no Python package in build/release (./dev build)");
    return;
  }
  Lab lab(kNodes);
  const SlurmCluster cluster(lab);
  const auto finished =
      cluster.run({"salloc", "-N3", "--", "env", "PYTHONPATH=" + package, "/usr/bin/python3", "-c",
                   "import meshbus, socket\n"
                   "with meshbus.slurm() as hosts, hosts.workers(2) as procs:\n"
                   "    print(*sorted(procs.run(socket.gethostname)))\n"},
                  in_time);
  INFO(finished.out << finished.err << cluster.log());
  CHECK(finished.status == ExitStatus::exited(0));
  std::string expected;
  for (std::size_t i = 0; i < kNodes; ++i)
    expected += (i == 0 ? "" : " ") + lab.host(i).name() + " " + lab.host(i).name();
  CHECK(finished.out == expected + "\n");
  for (std::size_t i = 0; i < kNodes; ++i)
    CHECK(wait_until([&] { return is_clean(lab.host(i), "meshbus.worker"); }, in_time));
}

TEST_CASE("slurm: a job that is cancelled leaves nothing on any node" *
          doctest::skip(!SlurmCluster::why_not().empty())) {
  SlurmJob job;
  CHECK(job.cluster.run({"scancel", "--state=RUNNING", "--user=root"}, in_time).status ==
        ExitStatus::exited(0));
  const auto status = job.salloc.wait_exit(in_time);
  INFO(job.salloc.describe() << job.cluster.log());
  CHECK(status != ExitStatus::exited(0));
  CHECK(wait_until([&] { return job.is_clean_everywhere(kNodes); }, in_time));
}

TEST_CASE("slurm: kill -9 of the launcher leaves nothing on any node" *
          doctest::skip(!SlurmCluster::why_not().empty())) {
  SlurmJob job;
  CHECK(job.cluster.run({"pkill", "-KILL", "-f", "^[^ ]*meshbus run"}, in_time).status ==
        ExitStatus::exited(0));
  INFO(job.salloc.describe() << job.cluster.log());
  CHECK(wait_until([&] { return job.is_clean_everywhere(kNodes); }, in_time));
  job.salloc.wait_exit(in_time);
}

TEST_CASE("slurm: a node that dies is named" * doctest::skip(!SlurmCluster::why_not().empty())) {
  SlurmJob job;
  const auto dead = job.lab.host(2).address();
  job.lab.power_off(2);
  const auto status = job.salloc.wait_exit(90s);
  INFO(job.salloc.describe() << job.cluster.log());
  CHECK(status.code.value_or(0) != 0);
  CHECK(job.salloc.err().find("tcp:" + dead) != std::string::npos);
  CHECK(wait_until([&] { return job.is_clean_everywhere(2); }, in_time));
}

TEST_CASE("slurm: a job with a spare goes on when a host ends" *
          doctest::skip(!SlurmCluster::why_not().empty())) {
  Lab lab(kNodes);
  const SlurmCluster cluster(lab);
  Process salloc =
      cluster.start({"salloc", "-N3", "--", bin("meshbus"), "run", "--use", "2", "-n", "4",
                     "--no-prefix", "--", "sh", "-c",
                     "if [ $MESHBUS_JOB_ATTEMPT = 0 ]; then echo stands; exec sleep 600; fi; "
                     "echo rank $RANK of $WORLD_SIZE went on"});
  REQUIRE(wait_until(
      [&] { return std::count(salloc.out().begin(), salloc.out().end(), '\n') == 4; }, in_time));
  // The first node has ranks; the third one is the spare.
  REQUIRE(lab.host(0).run({"pkill", "-KILL", "-f", "meshbus-keeper"}, in_time).status ==
          ExitStatus::exited(0));
  const auto status = salloc.wait_exit(90s);
  INFO(salloc.describe() << cluster.log());
  CHECK(status == ExitStatus::exited(0));
  for (std::size_t rank = 0; rank < 4; ++rank)
    CHECK(salloc.out().find("rank " + std::to_string(rank) + " of 4 went on") != std::string::npos);
  CHECK(salloc.err().find("attempt 2 of the job on 2 hosts, 0 hosts to spare") !=
        std::string::npos);
  for (std::size_t i = 0; i < kNodes; ++i)
    CHECK(wait_until([&] { return is_clean(lab.host(i), "sleep 600"); }, in_time));
}

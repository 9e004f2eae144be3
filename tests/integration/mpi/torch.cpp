// `meshbus torchrun` and `run --torch`: programs that were written for torchrun.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/integration/mpi/fixture.h"

using namespace meshbus::test;

namespace {

Finished torchrun(const Words& words) {
  Words all = {"torchrun"};
  all.insert(all.end(), words.begin(), words.end());
  return run_cli(all);
}

/// A script that reads the variables as torch does, and has rank 0 listen at MASTER_PORT, as its
/// TCPStore does, for the others to connect. It fails in rank 1 in the first two attempts.
constexpr char kStore[] = R"(
import os, socket, sys
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
os.environ["TORCHELASTIC_RUN_ID"], os.environ["GROUP_RANK"], os.environ["ROLE_RANK"]
assert "TORCHELASTIC_USE_AGENT_STORE" not in os.environ
print("port", attempt, at[1], flush=True)
if rank == 0:
    store = socket.create_server(at)
    others = [store.accept()[0] for _ in range(size - 1)]
    for other in others:
        other.sendall(b"x")
else:
    while True:
        try:
            other = socket.create_connection(at)
            break
        except ConnectionRefusedError:
            pass
    assert other.recv(1) == b"x"
if rank == 1 and attempt < 2:
    sys.exit(3)
print("met", rank, size, *sys.argv[1:], flush=True)
)";

}  // namespace

TEST_CASE("torchrun: its command line, its variables, and a fresh MASTER_PORT for each attempt") {
  const TempDir dir;
  const auto script = dir.write("store.py", kStore);
  const auto finished = torchrun({"--standalone", "--nproc_per_node=2", "--max-restarts", "2",
                                  "--rdzv_backend=c10d", script, "--lr", "1"});
  INFO(finished.out, finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out.find("] met 0 2 --lr 1\n") != std::string::npos);
  CHECK(finished.out.find("] met 1 2 --lr 1\n") != std::string::npos);
  CHECK(finished.err.find("--rdzv_backend has no meaning here: ") != std::string::npos);
  CHECK(finished.err.find("OMP_NUM_THREADS is not set") != std::string::npos);
  std::map<int, std::set<int>> ports;
  for (const auto& line : lines_of(finished.out)) {
    int attempt = 0, port = 0;
    const auto at = line.find("] port ");
    if (at != std::string::npos &&
        std::sscanf(line.c_str() + at, "] port %d %d", &attempt, &port) == 2)
      ports[attempt].insert(port);
  }
  REQUIRE(ports.size() == 3);
  std::set<int> all;
  for (const auto& [attempt, of_attempt] : ports) {
    CHECK(of_attempt.size() == 1);
    all.insert(of_attempt.begin(), of_attempt.end());
  }
  CHECK(all.size() == 3);
}

TEST_CASE("torchrun: what cannot be meant is refused") {
  auto finished = torchrun({"--nnodes=2", "train.py"});
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.err.find("on which machines?") != std::string::npos);
  finished = torchrun({"--nnodes=3", "--hosts", "2", "--no-python", "true"});
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.err.find("--nnodes=3, but --hosts names 2") != std::string::npos);
  finished = torchrun({"--nproc_per_node=many", "--no-python", "true"});
  CHECK(finished.status == ExitStatus::exited(2));
  finished = torchrun({"--nnodes=1:4", "--hosts", "2", "--no-python", "true"});
  CHECK(finished.status == ExitStatus::exited(0));
}

TEST_CASE("torch: -x wins over what is derived, and modules run") {
  const auto finished =
      run_job_of({"--torch", "-n", "1", "-x", "OMP_NUM_THREADS=5"},
                 {"sh", "-c", "echo $OMP_NUM_THREADS $GROUP_WORLD_SIZE $ROLE_NAME"});
  CHECK(finished.out == "5 1 default\n");
  CHECK(finished.err == "");
  const auto module = torchrun({"-m", "this"});
  CHECK(module.status == ExitStatus::exited(0));
  CHECK(module.out.find("The Zen of Python") != std::string::npos);
}

TEST_CASE("torch: DDP over two hosts starts again from the beginning as a gang" *
          doctest::test_suite(need::torch)) {
  const TempDir dir;
  const auto script = dir.write("ddp.py",
                                "import os, sys, torch, torch.distributed as dist\n"
                                "dist.init_process_group('gloo')\n"
                                "model = torch.nn.parallel.DistributedDataParallel("
                                "torch.nn.Linear(2, 1))\n"
                                "model(torch.ones(1, 2)).sum().backward()\n"
                                "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
                                "    sys.exit(dist.get_rank() and 4)\n"
                                "print('done', dist.get_world_size(), flush=True)\n");
  const auto finished = run_job_of({"--torch", "--hosts", "2", "-n", "2", "--restart",
                                    "on-failure:1", "--gang", "all", "--restart-delay", "10ms"},
                                   {"/usr/bin/python3", script});
  INFO(finished.out, finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "done 2\ndone 2\n");
}

// What the command line says is true: mistakes are found at once, in the words that were typed, and
// one dead host keeps no command from the others (spec 12.2, 12.5, 12.6, 12.9).
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

void check_mistake(const Words& words, std::string_view with) {
  const auto begin = std::chrono::steady_clock::now();
  const auto finished = run_cli(words);
  std::string line;
  for (const std::string& word : words) line += " " + word;
  INFO("meshbus" << line << "\n" << finished.err);
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.out.empty());
  CHECK(contains(finished.err, with));
  // Nothing was started: on a busy machine with sanitizers a host alone takes longer.
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

}  // namespace

TEST_CASE("cli: flags of mpirun, srun and torchrun are answered by what meshbus run takes") {
  check_mistake({"run", "-np", "2", "true"}, "it takes -n N");
  check_mistake({"run", "--np", "2", "--", "true"}, "it takes -n N");
  check_mistake({"run", "--ntasks", "2", "--", "true"}, "it takes -n N");
  check_mistake({"run", "--nproc-per-node=2", "--", "true"}, "it takes --per-host N");
  check_mistake({"run", "--nnodes", "2", "--", "true"}, "it takes --hosts N");
  check_mistake({"run", "--wdir", "/tmp", "--", "true"}, "cd DIR");
  check_mistake({"torchrun", "--use", "2", "train.py"}, "meshbus run --torch has it");
  check_mistake({"spawn", "job", "--np", "2", "--", "true"}, "it takes -n N");
  check_mistake({"spawn", "job", "--mpi", "--", "true"},
                "spawn NAME -n 1 -- meshbus run --mpi ...");
  check_mistake({"spawn", "--name", "job", "--", "true"}, "the name is its first word");
  check_mistake({"spawn", "job", "--use", "2", "--", "true"},
                "spawn NAME -n 1 -- meshbus run --use ...");
}

TEST_CASE(
    "cli: what cannot be is refused before anything is started, in the words that were typed") {
  check_mistake({"run", "--hosts", "h1", "--", "true"}, "did you mean tcp:h1:7420 or ssh:h1?");
  check_mistake({"run", "--per-host", "host=2", "--", "true"}, "--hosts says how many");
  check_mistake({"run", "--restart", "always", "--restart-delay", "5", "--", "true"},
                "'5' has no unit: write 5ms, 5s or 5m");
  check_mistake({"keygen", "--expires", "90", "operator", "x"}, "'90' has no unit");
  check_mistake({"run", "--name", "", "--", "true"}, "--name is empty");
  check_mistake({"run", "--name", "zz-later", "--", "true"}, "this one would do: zz_later");
  check_mistake({"run", "--per-host", "gpu=4000000000", "--", "true"}, "16384");
  check_mistake({"run", "--per-host", "gpu=20000", "--", "true"}, "16384");
  check_mistake({"run", "--per-host", "gpu=0", "--", "true"}, "gpu=0 is no rank at all");
  check_mistake({"run", "-x", "A-B=3", "--", "true"}, "not 'A-B=3'");
  check_mistake({"run", "-x", "1A=3", "--", "true"}, "not '1A=3'");
  check_mistake({"run", "--hosts", "local:1", "--", "true"}, "no other program can reach it");
  check_mistake({"ps", "--hosts", "local:1"}, "no other program can reach it");
  check_mistake({"run", "-n", "100000", "--", "true"}, "at least 7 hosts");
  check_mistake({"run", "--trace", "/no/such/directory/trace", "--", "true"},
                "/no/such/directory/trace cannot be written");
  check_mistake({"bench", "throughput", "--duration", "500"}, "has no unit");
}

TEST_CASE("cli: the same mistake has the same exit code in all programs") {
  check_mistake({"host", "--bind", "nonsense"}, "--bind nonsense");
  check_mistake({"host", "--set", "nonsense=1"}, "nonsense");
  check_mistake({"host", "--nonsense"}, "--nonsense");
  for (const std::string program : {"meshbus-broker", "meshbus-agent", "meshbus-controller"}) {
    CAPTURE(program);
    CHECK(run({bin(program), "--nonsense"}, in_time).status == ExitStatus::exited(2));
  }
}

TEST_CASE(
    "cli: a file that cannot be written at the end does not replace the exit code of the job") {
  const auto finished = run_cli({"run", "--json", "/dev/full", "--", "sh", "-c", "exit 0"});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(contains(finished.err, "cannot write the report to /dev/full"));
}

TEST_CASE(
    "cli: spec 4.4: of two processes that were started with one bootstrap the second is refused, "
    "by "
    "name and pid, and the first goes on") {
  const TempDir dir;
  const auto twin = bin("echo_proc") + " " + dir.path().string();
  Process job(cli({"run", "--mesh", "-n", "1", "--", "sh", "-c", twin + " & " + twin + "; wait"}));
  const auto is_refused = [&] {
    return contains(job.err(), "was started with the same bootstrap");
  };
  CHECK(wait_until([&] { return is_refused() || !job.is_running(); }, in_time));
  INFO(job.describe());
  CHECK(is_refused());
  CHECK(contains(job.err(), ", which lives; process "));
  CHECK_FALSE(wait_until([&] { return !job.is_running(); }, 500ms));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
}

TEST_CASE("cli: a base that means two live meshes is an error that lists them, also for stop") {
  StandingHost host;
  SleepingJob one(host.address(), "work", 1), two(host.address(), "work", 1);
  for (const Words& words :
       {Words{"stop", "work"}, {"status", "work"}, {"logs", "work"}, {"signal", "USR1", "work"}}) {
    auto command = words;
    command.insert(command.end(), {"--hosts", host.address()});
    const auto finished = run_cli(command);
    INFO(words.front() << ": " << finished.out << finished.err);
    CHECK(finished.status == ExitStatus::exited(1));
    CHECK(contains(finished.err, "2 meshes are meant by 'work': work-"));
  }
  CHECK(one.left() == 1);
  CHECK(two.left() == 1);
}

TEST_CASE("cli: ranks are chosen the same way in status, signal and stop") {
  StandingHost host;
  SleepingJob mesh(host.address(), "work", 4);
  const auto status = run_cli({"status", "work[1-2]", "--hosts", host.address()});
  CHECK(status.status == ExitStatus::exited(0));
  CHECK(contains(status.out, "  Running  1-2\n"));
  CHECK(run_cli({"signal", "0", "work", "--hosts", host.address()}).status ==
        ExitStatus::exited(2));
  const auto stopped = run_cli({"stop", "work[0]", "--hosts", host.address()});
  INFO(stopped.out << stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(contains(stopped.out, ": 1 rank ended"));
}

TEST_CASE("cli: signal reaches the process groups of ranks") {
  StandingHost host;
  Process job(
      cli({"run", "--hosts", host.address(), "--name", "trap", "-n", "2", "--", "perl", "-e",
           "$| = 1; $SIG{USR1} = sub { print qq(heard\\n); exit 0 }; print qq(up\\n); sleep 60 "
           "while 1"}));
  REQUIRE(wait_until(
      [&] { return contains(job.out(), "proc=0] up\n") && contains(job.out(), "proc=1] up\n"); },
      in_time));
  const auto sent = run_cli({"signal", "USR1", "trap[1]", "--hosts", host.address()});
  INFO(sent.err);
  CHECK(sent.status == ExitStatus::exited(0));
  CHECK(wait_until([&] { return contains(job.out(), "proc=1] heard\n"); }, in_time));
  CHECK_FALSE(contains(job.out(), "proc=0] heard\n"));
  CHECK(run_cli({"signal", "SIGUSR1", "trap", "--hosts", host.address()}).status ==
        ExitStatus::exited(0));
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE(
    "cli: a host that does not answer keeps status, ps, why and logs from nothing that the others "
    "know") {
  StandingHost one, two;
  const auto hosts = one.address() + "," + two.address();
  SleepingJob mesh(hosts, "work", 2);
  const FrozenHost frozen(two.roles());
  for (const Words& words : {Words{"status", "work"}, {"ps"}, {"why", "work"}, {"logs", "work"}}) {
    auto command = words;
    command.insert(command.end(), {"--hosts", hosts});
    const auto begin = std::chrono::steady_clock::now();
    const auto finished = run_cli(command);
    const auto took = std::chrono::steady_clock::now() - begin;
    INFO(words.front() << ": " << finished.out << finished.err);
    CHECK(finished.status == ExitStatus::exited(1));
    CHECK(contains(finished.out + finished.err, "does not answer"));
    // 1.5 s is the promise; sanitizers and other tests slow the start of the program.
    CHECK(took < 4s);
  }
  const auto status = run_cli({"status", "work", "--hosts", hosts}).out;
  CHECK(contains(status, "  Unknown  1\n"));
  CHECK(contains(status, "  Running  0\n"));
}

TEST_CASE("cli: status --wait tells of a host that is lost while it waits for another") {
  StandingHost one, two;
  const auto hosts = one.address() + "," + two.address();
  CHECK(run_cli({"run", "--hosts", two.address(), "-n", "1", "--name", "early", "--", "true"})
            .status == ExitStatus::exited(0));
  SleepingJob late(one.address(), "late", 1);
  Process waiter(cli({"status", "--wait", "stopped", "--timeout", "20s", "--hosts", hosts}));
  // It has found `early` ended, and waits for `late`.
  CHECK_FALSE(wait_until([&] { return !waiter.is_running(); }, 2s));
  const FrozenHost frozen(two.roles());
  CHECK(run_cli({"stop", "late", "--hosts", one.address()}).status == ExitStatus::exited(0));
  CHECK(waiter.wait_exit(in_time) == ExitStatus::exited(1));
  INFO(waiter.describe());
  CHECK(contains(waiter.err(), "host " + two.address() + " does not answer"));
  CHECK(contains(waiter.out(), "  Unknown  0"));
}

TEST_CASE("cli: stop and drain act on every host that answers, and say what was not done") {
  StandingHost one, two;
  const auto hosts = one.address() + "," + two.address();
  SleepingJob mesh(hosts, "work", 2);
  {
    const FrozenHost frozen(two.roles());
    const auto stopped = run_cli({"stop", "work", "--hosts", hosts});
    INFO(stopped.out << stopped.err);
    CHECK(stopped.status == ExitStatus::exited(1));
    CHECK(contains(stopped.out, ": 1 rank ended"));
    CHECK(contains(stopped.err,
                   "rank 1 on host " + two.address() + " not stopped: the host does not answer"));
    CHECK(mesh.left() == 1);
    const auto drained = run_cli({"drain", "--hosts", hosts});
    INFO(drained.out << drained.err);
    CHECK(drained.status == ExitStatus::exited(1));
    CHECK(contains(drained.out, "drained all meshes"));
    CHECK(contains(drained.err, "host " + two.address() + " not drained: it does not answer"));
  }
}

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "agent/os/sweep.h"
#include "tests/integration/keeper/harness.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

using namespace meshbus::test;
using meshbus::UniqueFd;
using meshbus::os::ProcSpec;
using meshbus::os::SpawnFailure;
using meshbus::os::SpawnSpec;
using meshbus::os::SpawnStage;
using meshbus::os::Stdio;

namespace {

std::vector<ProcSpec> procs(std::size_t count = 1) {
  return std::vector<ProcSpec>(count);
}

SpawnFailure failure_of(KeeperUnderTest& keeper, SpawnSpec spec) {
  const auto id = keeper.spawn(std::move(spec), procs());
  REQUIRE(wait_until([&] { return keeper.pump(), keeper.births.contains(id); }, long_enough));
  REQUIRE(keeper.births.at(id).failure.has_value());
  return *keeper.births.at(id).failure;
}

UniqueFd sealed_memfd(const std::string& text) {
  UniqueFd file(::memfd_create("bootstrap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS,
                  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return file;
}

}  // namespace

TEST_CASE(
    "keeper: environment, working directory, arguments and standard streams are those of the "
    "spec") {
  KeeperUnderTest keeper;
  const TempDir directory;
  auto spec =
      command({"sh", "-c", "echo $A $B $C; pwd; echo $0; cat; test -t 0 || echo no tty", "zero"});
  spec.env = {"PATH=/usr/bin:/bin", "A=shared", "B=shared"};
  spec.cwd = directory.path();
  auto one = procs();
  one[0].env = {"B=own", "C=new"};
  one[0].stdin_choice = Stdio::pipe;
  const auto id = keeper.spawn(std::move(spec), std::move(one));
  REQUIRE(keeper.wait_births(1));
  auto& birth = keeper.births.at(id);
  REQUIRE_FALSE(birth.failure.has_value());
  CHECK(birth.pid > 0);
  CHECK(birth.pidfd);
  CHECK(birth.started_realtime_ns > 0);
  REQUIRE(::write(birth.stdin_pipe.get(), "input\n", 6) == 6);
  birth.stdin_pipe.reset();
  keeper.client().close_input({id});  // the keeper holds it for the next agent
  keeper.client().flush();
  CHECK(keeper.read_stdout(id) ==
        "shared own new\n" + directory.path().string() + "\nzero\ninput\nno tty\n");
  REQUIRE(keeper.wait_gone(1));
  CHECK(keeper.exits.at(id).code == 0);
}

TEST_CASE("keeper: what cannot be executed is reported with step, reason and file") {
  KeeperUnderTest keeper;
  const TempDir directory;
  const auto text = directory.write("text", "echo not a program\n", true);
  const auto orphaned_script = directory.write("script", "#!/no/such/interpreter -x\necho\n", true);
  directory.write("plain", "#!/bin/sh\n");

  auto failure = failure_of(keeper, command({"/no/such/file"}));
  CHECK(failure.stage == SpawnStage::exec);
  CHECK(failure.error == ENOENT);
  CHECK(failure.file == "/no/such/file");
  CHECK(describe(failure) == "/no/such/file: No such file or directory (step: exec)");

  failure = failure_of(keeper, command({"/etc/passwd"}));
  CHECK(failure.stage == SpawnStage::exec);
  CHECK(failure.error == EACCES);

  failure = failure_of(keeper, command({text}));
  CHECK(failure.stage == SpawnStage::exec);
  CHECK(failure.error == ENOEXEC);
  CHECK(failure.file == text);

  failure = failure_of(keeper, command({orphaned_script}));
  CHECK(failure.stage == SpawnStage::interpreter);
  CHECK(failure.error == ENOENT);
  CHECK(failure.file == orphaned_script + ": interpreter /no/such/interpreter");

  failure = failure_of(keeper, command({"meshbus-no-such-command"}));
  CHECK(failure.stage == SpawnStage::lookup);
  CHECK(failure.error == ENOENT);
  CHECK(failure.file == "meshbus-no-such-command");

  auto denied = command({"plain"});
  denied.env = {"PATH=/nowhere:" + directory.path().string()};
  failure = failure_of(keeper, std::move(denied));
  CHECK(failure.stage == SpawnStage::lookup);
  CHECK(failure.error == EACCES);

  auto nowhere = command({"true"});
  nowhere.cwd = "/no/such/directory";
  failure = failure_of(keeper, std::move(nowhere));
  CHECK(failure.stage == SpawnStage::working_directory);
  CHECK(failure.error == ENOENT);
  CHECK(failure.file == "/no/such/directory");

  auto huge = command({"true", std::string(300'000, 'x')});
  failure = failure_of(keeper, std::move(huge));
  CHECK(failure.stage == SpawnStage::exec);
  CHECK(failure.error == E2BIG);

  CHECK(keeper.exits.empty());
  CHECK(keeper.disorder.empty());
}

TEST_CASE(
    "keeper: a program is found by PATH of its own environment, relative to its own directory") {
  KeeperUnderTest keeper;
  const TempDir directory;
  std::filesystem::create_directory(directory.path() / "bin");
  directory.write("bin/found", "#!/bin/sh\necho found\n", true);
  auto spec = command({"found"});
  spec.cwd = directory.path();
  spec.env = {"PATH=/usr/bin:/bin:bin"};
  const auto id = keeper.spawn(std::move(spec), procs());
  REQUIRE(keeper.wait_births(1));
  CHECK(keeper.read_stdout(id) == "found\n");
  auto dotted = command({"./bin/found"});
  dotted.cwd = directory.path();
  const auto second = keeper.spawn(std::move(dotted), procs());
  REQUIRE(keeper.wait_births(2));
  CHECK(keeper.read_stdout(second) == "found\n");
}

TEST_CASE(
    "keeper: a proc is a session leader with default signals, no foreign descriptors, a tag and a "
    "parent-death signal") {
  const std::uint64_t process_tag = (std::uint64_t{1} << 62) + 4711;
  KeeperUnderTest keeper({.arguments = {"--process-tag", std::to_string(process_tag)}});
  const auto id = keeper.spawn_shell(
      "ls /proc/self/fd | tr '\\n' ' '; grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -n; exec "
      "sleep 60");
  REQUIRE(keeper.wait_births(1));
  const auto& birth = keeper.births.at(id);
  REQUIRE(wait_until([&] { return find_process(birth.pid)->name == "sleep"; }, long_enough));
  const auto info = find_process(birth.pid);
  CHECK(info->session == birth.pid);
  CHECK(info->group == birth.pid);
  char buffer[4096]{};
  REQUIRE(::read(birth.stdout_pipe.get(), buffer, sizeof buffer - 1) > 0);
  const std::string text(buffer);
  CHECK(text.find("0 1 2 3 ") == 0);  // 3 is the directory that ls reads
  CHECK(text.find("SigBlk:\t0000000000000000") != std::string::npos);
  CHECK(text.find("SigIgn:\t0000000000000000") != std::string::npos);
  rlimit own{};
  ::getrlimit(RLIMIT_NOFILE, &own);
  CHECK(text.find("\n" + std::to_string(own.rlim_cur) + "\n") != std::string::npos);
  rlimit limit{};
  REQUIRE(::prlimit(birth.pid, RLIMIT_RTTIME, nullptr, &limit) == 0);
  CHECK(limit.rlim_max == process_tag);
  // The way to what has no living subreaper: found by its tag alone.
  CHECK(meshbus::os::sweep_tagged(process_tag + 1, std::chrono::milliseconds(100)));
  CHECK_FALSE(is_gone(birth.pid));
  CHECK(meshbus::os::sweep_tagged(process_tag, long_enough));
  REQUIRE(keeper.wait_exits(1));
  CHECK(keeper.exits.at(id).signaled);
  CHECK(keeper.exits.at(id).code == SIGKILL);
}

TEST_CASE(
    "keeper: the bootstrap descriptor is found by its variable, also through a wrapper that closed "
    "it") {
  KeeperUnderTest keeper;
  const std::string read_it = R"sh(
IFS=: read fd pid inode <<END
$MESHBUS_BOOTSTRAP
END
[ "$(stat -Lc %i /proc/$pid/fd/$fd)" = "$inode" ] && cat /proc/$pid/fd/$fd &&
echo "$MESHBUS_BOOTSTRAP pid=$pid"
)sh";
  auto direct = procs(2);
  direct[0].bootstrap = sealed_memfd("first ");
  direct[1].bootstrap = sealed_memfd("second ");
  direct[0].env = {"MESHBUS_BOOTSTRAP=of another life"};
  const auto first = keeper.spawn(command({"sh", "-c", read_it}), std::move(direct));
  // The wrapper stays and its child has lost the descriptor, as with python's subprocess.
  auto wrapped = procs();
  wrapped[0].bootstrap = sealed_memfd("wrapped ");
  const auto second = keeper.spawn(
      command({"bash", "-c", "bash -c 'exec 100<&-; eval \"$1\"' _ \"$1\"; exit 0", "_", read_it}),
      std::move(wrapped));
  // A small limit of open files needs a small number.
  auto narrow = command({"sh", "-c", read_it});
  narrow.settings.limits = {{RLIMIT_NOFILE, 16, 16}};
  auto few = procs();
  few[0].bootstrap = sealed_memfd("few ");
  const auto third = keeper.spawn(std::move(narrow), std::move(few));
  REQUIRE(keeper.wait_births(4));
  const auto check = [&](std::uint64_t id, const std::string& name) {
    REQUIRE_FALSE(keeper.births.at(id).failure.has_value());
    const std::string text = keeper.read_stdout(id);
    CHECK(text.find(name) == 0);
    CHECK(text.find("pid=" + std::to_string(keeper.births.at(id).pid) + "\n") != std::string::npos);
  };
  check(first, "first ");
  check(first + 1, "second ");
  check(second, "wrapped ");
  check(third, "few ");
}

TEST_CASE("keeper: a queued spawn is cancelled by a signal that ends, and only that one") {
  KeeperUnderTest keeper;
  const auto first = keeper.spawn(command({"sleep", "60"}), procs(100));
  for (std::uint64_t id = first; id < first + 100; ++id)
    CHECK(keeper.client().signal({id, SIGTERM, true}).has_value());
  keeper.client().flush();
  REQUIRE(keeper.wait_births(100));
  std::size_t started = 0;
  for (const auto& [id, birth] : keeper.births) {
    if (!birth.failure) ++started;
    if (birth.failure) CHECK(birth.failure->stage == SpawnStage::cancelled);
  }
  REQUIRE(keeper.wait_gone(started));
  CHECK(keeper.exits.size() == started);
  for (const auto& [id, exit] : keeper.exits) CHECK(exit.code == SIGTERM);
  CHECK(keeper.disorder.empty());
}

TEST_CASE("keeper: garbage from the agent's side ends that connection and nothing else") {
  KeeperUnderTest keeper;
  const auto marker = make_marker();
  keeper.spawn(command({"sleep", marker}), procs());
  REQUIRE(keeper.wait_births(1));
  meshbus::os::Packet garbage;
  garbage.bytes.assign(100, std::byte{0x5a});
  REQUIRE(send_packet(keeper.client().fd(), garbage) == meshbus::os::Transfer::done);
  CHECK(wait_until([&] { return keeper.pump(), keeper.lost; }, long_enough));
  CHECK(keeper.process().is_running());
  CHECK(processes_with(marker).size() == 1);
  keeper.lifeline().send("sweep");
  CHECK(keeper.process().wait_exit(long_enough) == ExitStatus::exited(0));
  CHECK(processes_with(marker).empty());
}

TEST_CASE(
    "keeper: where clone3 is forbidden, as in older container runtimes, everything works by "
    "clone") {
  const TempDir directory;
  const std::vector<std::string> wrapper{stand_in(directory, "without-clone3")};
  for (const bool cgroup : {false, true}) {
    if (cgroup && !cgroup_is_usable()) continue;
    CAPTURE(cgroup);
    KeeperUnderTest keeper({.cgroup = cgroup, .wrapper = wrapper});
    const auto id = keeper.spawn_shell("cat /proc/self/status /proc/self/cgroup; exit 3");
    const auto missing = keeper.spawn(command({"/no/such/file"}), procs());
    REQUIRE(keeper.wait_births(2));
    REQUIRE_FALSE(keeper.births.at(id).failure.has_value());
    REQUIRE(keeper.births.at(missing).failure.has_value());
    CHECK(keeper.births.at(missing).failure->error == ENOENT);
    const std::string text = keeper.read_stdout(id);
    CHECK(
        text.find(
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n") !=
        std::string::npos);
    CHECK((text.find("/mesh-shells") != std::string::npos) == cgroup);
    REQUIRE(keeper.wait_gone(1));
    CHECK(keeper.exits.at(id).code == 3);
  }
}

TEST_CASE("keeper: a proc has the settings that were asked for when it executes its command") {
  KeeperUnderTest keeper;
  SpawnSpec spec;
  spec.program = "sh";
  spec.argv = {"sh", "-c",
               "echo $(nice) $(umask) $(ulimit -c) $(ulimit -n) $(ulimit -H -n) $(grep "
               "Cpus_allowed_list /proc/self/status | cut -f2) "
               "$(id -u) $(id -g) $(id -G)"};
  spec.mesh = "settings";
  spec.settings.nice = 7;
  spec.settings.umask = 027;
  spec.settings.limits = {{RLIMIT_CORE, 0, 0}, {RLIMIT_NOFILE, 100, 200}};
  spec.settings.cpus = {0};
  std::string expected = "7 0027 0 100 200 0";
  if (::geteuid() == 0) {
    spec.settings.uid = 65534;
    spec.settings.gid = 65533;
    spec.settings.groups = {65533, 12345};
    expected += " 65534 65533 65533 12345";
  }
  const auto id = keeper.spawn(spec, std::vector<ProcSpec>(1));
  REQUIRE(keeper.wait_gone(1));
  CHECK(keeper.read_stdout(id).starts_with(expected));
}

TEST_CASE("keeper: a proc gains no privileges if that was asked for, and else may") {
  KeeperUnderTest keeper;
  SpawnSpec spec;
  spec.program = "grep";
  spec.argv = {"grep", "NoNewPrivs", "/proc/self/status"};
  spec.mesh = "privileges";
  const auto free = keeper.spawn(spec, std::vector<ProcSpec>(1));
  spec.settings.no_new_privs = true;
  const auto bound = keeper.spawn(spec, std::vector<ProcSpec>(1));
  REQUIRE(keeper.wait_gone(2));
  std::ifstream own("/proc/self/status");
  std::string line;
  while (std::getline(own, line) && !line.starts_with("NoNewPrivs")) {
  }
  CHECK(keeper.read_stdout(free) == line + "\n");
  CHECK(keeper.read_stdout(bound) == "NoNewPrivs:\t1\n");
}

TEST_CASE("keeper: a proc has the OOM score that the keeper was told, not that of the keeper") {
  KeeperUnderTest keeper({.arguments = {"--oom-score", "123"}});
  SpawnSpec spec;
  spec.program = "cat";
  spec.argv = {"cat", "/proc/self/oom_score_adj"};
  spec.mesh = "score";
  const auto id = keeper.spawn(spec, std::vector<ProcSpec>(1));
  REQUIRE(keeper.wait_gone(1));
  CHECK(keeper.read_stdout(id) == "123\n");
}

TEST_CASE(
    "keeper: a setting that cannot be had is a failure that names it, and nothing is executed") {
  KeeperUnderTest keeper;
  SpawnSpec spec;
  spec.program = "true";
  spec.mesh = "settings";
  std::uint64_t count = 0;
  const auto failure_of = [&](const meshbus::os::ProcSettings& settings) {
    spec.settings = settings;
    const auto id = keeper.spawn(spec, std::vector<ProcSpec>(1));
    REQUIRE(keeper.wait_births(++count));
    const auto& birth = keeper.births.at(id);
    REQUIRE(birth.failure.has_value());
    return meshbus::os::describe(*birth.failure);
  };
  CHECK(failure_of({.limits = {{RLIMIT_CORE, 0, 0}, {99, 0, 0}}}) ==
        "RLIMIT 99: Invalid argument (step: limits)");
  CHECK(failure_of({.cpus = {meshbus::os::kMaxCpus - 1}}) ==
        "CPUs 1023: Invalid argument (step: affinity)");
  if (::geteuid() != 0)
    CHECK(failure_of({.uid = 0}).find("Operation not permitted (step: credentials)") !=
          std::string::npos);
  spec.settings = {.cpus = {meshbus::os::kMaxCpus}};
  CHECK(keeper.client().spawn({spec, {}}).has_value());  // nobody to start
}

TEST_CASE(
    "keeper: a new agent is told of everything that the last one had not said Forget about, and of "
    "nothing else") {
  KeeperUnderTest keeper;
  const auto first =
      keeper.spawn(command({"sh", "-c", "echo one; read line; echo $line; exit 3"}), [] {
        auto three = procs(3);
        for (ProcSpec& proc : three) proc.stdin_choice = Stdio::pipe;
        return three;
      }());
  const auto failed = keeper.spawn(command({"/no/such/file"}), procs());
  REQUIRE(keeper.wait_births(4));
  CHECK(keeper.replayed);  // there was nothing before
  const auto pid = keeper.births.at(first).pid;
  REQUIRE(::write(keeper.births.at(first + 1).stdin_pipe.get(), "x\n", 2) == 2);
  REQUIRE(keeper.wait_gone(1));
  keeper.client().forget({failed});
  keeper.client().flush();
  // Also what is asked for and not yet read when the agent goes, and what nobody is there to hear
  // of.
  keeper.signal(first + 2, SIGKILL);
  keeper.replace_agent();
  REQUIRE(keeper.wait_gone(2));
  REQUIRE(wait_until([&] { return keeper.pump(), keeper.replayed; }, long_enough));
  CHECK(keeper.births.size() == 3);
  CHECK(keeper.births.at(first).pid == pid);
  CHECK(keeper.births.at(first).pidfd);
  CHECK(keeper.read_stdout(first + 1) == "one\nx\n");
  CHECK(keeper.exits.at(first + 1).code == 3);
  CHECK(keeper.exits.at(first + 2).signaled);
  CHECK_FALSE(keeper.exits.contains(first));
  // The pipes are the same ones, and a proc that exists is not started twice.
  REQUIRE(::write(keeper.births.at(first).stdin_pipe.get(), "y\n", 2) == 2);
  REQUIRE(keeper.wait_gone(3));
  CHECK(keeper.read_stdout(first) == "one\ny\n");
  for (std::uint64_t id = first; id < first + 3; ++id) keeper.client().forget({id});
  keeper.client().flush();
  keeper.replace_agent();
  REQUIRE(wait_until([&] { return keeper.pump(), keeper.replayed; }, long_enough));
  CHECK(keeper.births.empty());
  CHECK(keeper.disorder.empty());
}

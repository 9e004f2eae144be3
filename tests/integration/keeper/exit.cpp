#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "agent/os/cgroup.h"
#include "tests/integration/keeper/harness.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

using namespace meshbus::test;
using meshbus::os::ProcSpec;
using meshbus::os::SpawnSpec;
using meshbus::os::Stdio;

namespace {

void in_each_containment(const std::function<void(KeeperUnderTest&)>& test) {
  for (const bool cgroup : {false, true}) {
    if (cgroup && !cgroup_is_usable()) {
      MESSAGE("cgroup v2 is not usable here: only the sweep is tested");
      continue;
    }
    CAPTURE(cgroup);
    KeeperUnderTest keeper({.cgroup = cgroup});
    test(keeper);
    if (cgroup) {
      // The mesh's own cgroup goes with its last proc.
      CHECK(wait_until(
          [&] {
            return keeper.pump(),
                   !std::filesystem::exists(keeper.cgroup() + "/" +
                                            meshbus::os::cgroup_name_of_mesh("shells"));
          },
          long_enough));
      keeper.lifeline().send("sweep");
      CHECK(keeper.process().wait_exit(long_enough) == ExitStatus::exited(0));
      CHECK_FALSE(std::filesystem::exists(keeper.cgroup()));
    }
    CHECK(keeper.disorder.empty());
  }
}

}  // namespace

TEST_CASE("keeper: 1000 procs that end at once have exactly their exit codes and signals") {
  in_each_containment([](KeeperUnderTest& keeper) {
    std::vector<ProcSpec> quiet(500);
    for (ProcSpec& proc : quiet) proc.stdout_choice = proc.stderr_choice = Stdio::null;
    const auto trues = keeper.spawn(command({"true"}), std::move(quiet));
    const auto falses = keeper.spawn(command({"false"}), std::vector<ProcSpec>(400));
    const auto codes = keeper.spawn_shell("exit $((($$ % 200) + 3))", 50);
    const auto kills = keeper.spawn_shell("kill -9 $$", 50);
    REQUIRE(keeper.wait_gone(1000));
    CHECK(keeper.exits.size() == 1000);
    for (const auto& [id, birth] : keeper.births) REQUIRE_FALSE(birth.failure.has_value());
    const auto is = [&](std::uint64_t id, bool signaled, int code) {
      const auto& exit = keeper.exits.at(id);
      return exit.signaled == signaled && exit.code == code &&
             exit.ended_monotonic_ns >= keeper.births.at(id).started_monotonic_ns - 1'000'000'000;
    };
    for (auto id = trues; id < trues + 500; ++id) CHECK(is(id, false, 0));
    for (auto id = falses; id < falses + 400; ++id) CHECK(is(id, false, 1));
    for (auto id = codes; id < codes + 50; ++id)
      CHECK(is(id, false, keeper.births.at(id).pid % 200 + 3));
    for (auto id = kills; id < kills + 50; ++id) CHECK(is(id, true, SIGKILL));
  });
}

TEST_CASE(
    "keeper: descendants in other sessions, double-forked, deaf or stopped die with their proc, "
    "and only with theirs") {
  in_each_containment([](KeeperUnderTest& keeper) {
    const auto doomed = make_marker();
    const auto spared = make_marker();
    const auto first = keeper.spawn_shell(zoo_script(doomed));
    keeper.spawn_shell(zoo_script(spared));
    REQUIRE(wait_until(
        [&] {
          return keeper.pump(), processes_with(doomed).size() >= zoo_size &&
                                    processes_with(spared).size() >= zoo_size;
        },
        long_enough));
    keeper.signal(first, SIGKILL);
    REQUIRE(keeper.wait_gone(1));
    CHECK(processes_with(doomed).empty());
    CHECK(processes_with(spared).size() >= zoo_size);
    CHECK(keeper.exits.at(first).code == SIGKILL);
    keeper.signal(first + 1, SIGTERM, true);
    REQUIRE(keeper.wait_gone(2));
    CHECK(processes_with(spared).empty());
  });
}

TEST_CASE(
    "keeper: when an ordinary end leaves descendants they are killed, and gone comes after that") {
  in_each_containment([](KeeperUnderTest& keeper) {
    const auto marker = make_marker();
    const auto id =
        keeper.spawn_shell("setsid sleep " + marker + " & (setsid sleep " + marker + " &); exit 7");
    REQUIRE(keeper.wait_gone(1));
    CHECK(processes_with(marker).empty());
    CHECK(keeper.exits.at(id).code == 7);
    CHECK(keeper.read_stdout(id).empty());  // and its pipe has come to an end
  });
}

TEST_CASE("keeper: a flood on stdout, closed streams and a stopped proc are handled exactly") {
  KeeperUnderTest keeper;
  const auto flood = keeper.spawn_shell("head -c 5000000 /dev/zero");
  const auto closed = keeper.spawn_shell("exec <&- >&- 2>&-; exit 5");
  const auto stopped = keeper.spawn_shell("kill -STOP $$; exit 6");
  const auto dumped = keeper.spawn_shell("ulimit -c 0; kill -SEGV $$");
  REQUIRE(keeper.wait_births(4));
  CHECK(keeper.read_stdout(flood).size() == 5'000'000);
  REQUIRE(wait_until([&] { return find_process(keeper.births.at(stopped).pid)->state == 'T'; },
                     long_enough));
  CHECK_FALSE(keeper.exits.contains(stopped));  // stopping is not ending
  keeper.signal(stopped, SIGCONT);
  REQUIRE(keeper.wait_gone(4));
  CHECK(keeper.exits.at(flood).code == 0);
  CHECK(keeper.exits.at(closed).code == 5);
  CHECK(keeper.exits.at(stopped).code == 6);
  CHECK(keeper.exits.at(dumped).signaled);
  CHECK(keeper.exits.at(dumped).code == SIGSEGV);
}

TEST_CASE(
    "keeper: signals come in the order in which they were asked for, and who does not end holds up "
    "nobody else's") {
  KeeperUnderTest keeper;
  constexpr std::size_t count = 300;  // more than it tells at a time
  const auto first = keeper.spawn(command({"sleep", "60"}), std::vector<ProcSpec>(count));
  const auto last = keeper.spawn(command({"sleep", "60"}), std::vector<ProcSpec>(1));
  REQUIRE(keeper.wait_births(count + 1));
  const auto to_each = [&](int signal) {
    for (auto id = first; id < first + count; ++id)
      CHECK(keeper.client().signal({id, signal, true}).has_value());
  };
  to_each(SIGSTOP);
  keeper.client().flush();
  const auto is_stopped = [&](std::uint64_t id) {
    return find_process(keeper.births.at(id).pid)->state == 'T';
  };
  // of two that wait for a process, the kernel gives it the fatal one first
  for (auto id = first; id < first + count; ++id)
    REQUIRE(wait_until([&] { return is_stopped(id); }, long_enough));
  to_each(SIGTERM);  // a stopped process does not take it
  keeper.signal(last, SIGKILL);
  REQUIRE(keeper.wait_exits(1));
  CHECK(keeper.exits.at(last).code == SIGKILL);
  CHECK(keeper.exits.size() == 1);  // the others are stopped still
  to_each(SIGCONT);
  to_each(SIGKILL);  // those that are gone by now: no error
  keeper.client().flush();
  REQUIRE(keeper.wait_gone(count + 1));
  for (const auto& [id, exit] : keeper.exits) {
    CHECK(exit.signaled);
    CHECK((exit.code == SIGTERM || exit.code == SIGKILL));
  }
  CHECK(keeper.disorder.empty());
}

TEST_CASE(
    "keeper: several procs of one process live and end with it; one that was cancelled before is "
    "not in it") {
  KeeperUnderTest keeper;
  // Before them is enough to do that a signal finds the last process unborn.
  keeper.spawn(command({"true"}), std::vector<ProcSpec>(60));
  std::vector<ProcSpec> procs(3);
  for (std::size_t i = 0; i < procs.size(); ++i) procs[i].place = static_cast<std::uint32_t>(i);
  const auto first = keeper.spawn(command({"sleep", "60"}), std::move(procs));
  keeper.signal(first, SIGKILL);
  const auto alone = keeper.spawn(command({"sleep", "60"}), std::vector<ProcSpec>(1));
  REQUIRE(keeper.wait_births(64));
  REQUIRE(keeper.births.at(first).failure.has_value());
  CHECK(keeper.births.at(first).failure->stage == meshbus::os::SpawnStage::cancelled);
  const auto pid = keeper.births.at(first + 1).pid;
  REQUIRE_FALSE(keeper.births.at(first + 1).failure.has_value());
  CHECK(keeper.births.at(first + 2).pid == pid);
  // It runs nothing of ours, so it never says that one has ended: a signal for one is none for it.
  keeper.signal(first + 1, SIGTERM);
  keeper.signal(first + 1, SIGKILL);
  keeper.signal(first + 2, SIGCONT);
  keeper.signal(alone, SIGKILL);
  REQUIRE(keeper.wait_exits(61));  // all before that was done
  keeper.replace_agent();
  REQUIRE(keeper.wait_births(64));
  CHECK(find_process(pid).has_value());
  CHECK_FALSE(keeper.exits.contains(first + 1));
  keeper.signal(first + 2, SIGKILL);  // now all of them are told
  REQUIRE(keeper.wait_gone(63));
  for (const auto id : {first + 1, first + 2}) {
    CHECK(keeper.exits.at(id).signaled);
    CHECK(keeper.exits.at(id).code == SIGKILL);
  }
  CHECK(keeper.disorder.empty());
}

TEST_CASE("keeper: CPU time and memory of a proc are in its exit") {
  KeeperUnderTest keeper;
  const auto id = keeper.spawn_shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
  REQUIRE(keeper.wait_exits(1));
  CHECK(keeper.exits.at(id).user_us + keeper.exits.at(id).system_us > 1000);
  CHECK(keeper.exits.at(id).max_rss_kib > 100);
}

TEST_CASE(
    "keeper: all procs of a mesh are killed by its name, queued ones included, and no other "
    "mesh's") {
  in_each_containment([](KeeperUnderTest& keeper) {
    const auto other = keeper.spawn_shell("exec sleep 60");
    keeper.spawn(command({"sleep", "60"}), std::vector<ProcSpec>(80));
    CHECK(keeper.client().kill_mesh({command({"sleep"}).mesh}).has_value());
    keeper.client().flush();
    REQUIRE(keeper.wait_births(81));
    std::size_t started = 0;
    for (const auto& [id, birth] : keeper.births) started += birth.failure ? 0u : 1u;
    REQUIRE(keeper.wait_gone(started - 1));
    CHECK_FALSE(keeper.exits.contains(other));
    keeper.signal(other, SIGKILL);
    REQUIRE(keeper.wait_gone(started));
  });
}

TEST_CASE("keeper: the end of its lifeline makes it kill everything below it, whatever that does") {
  in_each_containment([](KeeperUnderTest& keeper) {
    const auto marker = make_marker();
    keeper.spawn_shell(zoo_script(marker), 8);
    REQUIRE(wait_until([&] { return keeper.pump(), processes_with(marker).size() >= 8 * zoo_size; },
                       long_enough));
    keeper.drop_lifeline();
    CHECK(keeper.process().wait_exit(long_enough) == ExitStatus::exited(0));
    CHECK(processes_with(marker).empty());
  });
}

TEST_CASE("keeper: it outlives its agent, and so do its procs") {
  KeeperUnderTest keeper;
  const auto marker = make_marker();
  keeper.spawn_shell("exec sleep " + marker);
  REQUIRE(
      wait_until([&] { return keeper.pump(), processes_with(marker).size() == 1; }, long_enough));
  REQUIRE(::shutdown(keeper.client().fd(), SHUT_RDWR) == 0);
  CHECK_FALSE(
      wait_until([&] { return !keeper.process().is_running() || processes_with(marker).empty(); },
                 std::chrono::milliseconds(100)));
  keeper.lifeline().send("sweep");
  CHECK(wait_until([&] { return processes_with(marker).empty(); }, long_enough));
}

TEST_CASE(
    "keeper: a chain of forks and a process without its main thread do not outlive their proc") {
  const TempDir directory;
  // Each link starts the next one in a session of its own and ends. Their number is bounded,
  // because dead links wait below their proc, which does not reap them, and process ids are few.
  const auto hopper = directory.write(
      "hopper", "#!/bin/sh\n[ $2 -lt 500 ] || exec sleep $1\nsetsid $0 $1 $(($2 + 1)) &\n", true);
  const auto headless = stand_in(directory, "test-headless");
  in_each_containment([&](KeeperUnderTest& keeper) {
    const auto marker = make_marker();
    const auto hop = hopper + " " + marker + " 1\n";
    const auto id = keeper.spawn_shell(hop + hop + "setsid sh -c 'echo $$; exec " + headless + " " +
                                       marker + "' &\nexec sleep " + marker);
    REQUIRE(keeper.wait_births(1));
    char pid[32]{};
    REQUIRE(wait_until(
        [&] { return ::read(keeper.births.at(id).stdout_pipe.get(), pid, sizeof pid - 1) > 0; },
        long_enough));
    const auto is_headless = [&] {
      const auto info = find_process(std::atoi(pid));
      return info && info->state == 'Z' && info->threads > 1;
    };
    REQUIRE(wait_until(is_headless, long_enough));
    keeper.signal(id, SIGKILL);
    REQUIRE(keeper.wait_gone(1));
    CHECK(processes_with(marker).empty());
    CHECK_FALSE(is_headless());
  });
}

TEST_CASE(
    "sweep: it ends with the proof that no child is left, with and without the kernel's list of "
    "children") {
  const TempDir directory;
  const std::string program = stand_in(directory, "test-sweeper");
  for (const std::string source : {"automatic", "table"}) {
    CAPTURE(source);
    const auto marker = make_marker();
    Process sweeper({program, source, marker}, {.stdin_pipe = true});
    REQUIRE(
        wait_until([&] { return processes_with(marker).size() >= 4 * zoo_size + 1; }, long_enough));
    sweeper.write_stdin("\n");
    CHECK(sweeper.wait_exit(long_enough) == ExitStatus::exited(0));
    CHECK(processes_with(marker).empty());
  }
}

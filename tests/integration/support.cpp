// The harness itself: what it promises to the other tests.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "tests/support/environment.h"
#include "tests/support/leftovers.h"
#include "tests/support/process.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// A sleep that nobody else has, not even another run of these tests on this machine.
std::string own_sleep() {
  return "sleep 1000." + std::to_string(::getpid());
}

}  // namespace

TEST_CASE("process: output, exit code and signal of a command") {
  const auto finished = run({"sh", "-c", "echo one; echo two >&2; exit 3"}, 5s);
  CHECK(finished.status == ExitStatus::exited(3));
  CHECK(finished.out == "one\n");
  CHECK(finished.err == "two\n");
  CHECK(run({"sh", "-c", "kill -9 $$"}, 5s).status == ExitStatus::killed_by(SIGKILL));
}

TEST_CASE("process: a megabyte of output arrives whole") {
  const auto finished = run({"sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"}, 10s);
  CHECK(finished.out == std::string(1000000, 'x'));
}

TEST_CASE("process: environment, directory, input and a group of its own") {
  const TempDir dir;
  ::setenv("SUPPORT_TEST_GONE", "1", 1);
  const auto finished = run({"sh", "-c", "echo $A-$SUPPORT_TEST_GONE-$(pwd)-$(cat)"}, 5s,
                            {.environment = {{"A", "b"}, {"SUPPORT_TEST_GONE", std::nullopt}},
                             .directory = dir.path(),
                             .input = "in"});
  ::unsetenv("SUPPORT_TEST_GONE");
  CHECK(finished.out == "b--" + dir.path().string() + "-in\n");
  Process process({"sleep", "1000"});
  CHECK(find_process(process.pid())->group == process.pid());
}

TEST_CASE("process: talks through a pipe and ends at end of file") {
  Process cat({"cat"}, {.stdin_pipe = true});
  cat.write_stdin("hello\n");
  cat.wait_for_output("hello", 5s);
  CHECK(cat.is_running());
  cat.close_stdin();
  CHECK(cat.wait_exit(5s) == ExitStatus::exited(0));
}

TEST_CASE("process: gets the descriptors it is given and no others") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const int not_close_on_exec = ::fcntl(0, F_DUPFD, 3);
  const std::string number = std::to_string(ends[1]);
  const auto finished = run({"sh", "-c", "echo ready >&" + number + "; ls /proc/self/fd | wc -l"},
                            5s, {.inherit = {ends[1]}});
  std::array<char, 16> text{};
  CHECK(::read(ends[0], text.data(), text.size()) == 6);
  CHECK(finished.out == "5\n");  // 0, 1, 2, the one given, and the one that ls opens
  for (const int fd : {ends[0], ends[1], not_close_on_exec}) ::close(fd);
}

TEST_CASE("process: what cannot be started says why") {
  CHECK_THROWS_WITH(Process({"/no/such/file"}), doctest::Contains("No such file"));
  CHECK_THROWS_WITH(Process({"/etc/passwd"}), doctest::Contains("Permission denied"));
  CHECK_THROWS_WITH(Process({"no-such-program-at-all"}), doctest::Contains("in PATH"));
}

TEST_CASE("process: a deadline that passes says what was written") {
  Process process({"sh", "-c", "echo here I am; exec sleep 1000"});
  process.wait_for_output("I am", 5s);
  CHECK_THROWS_WITH(process.wait_exit(20ms), doctest::Contains("here I am"));
  CHECK_THROWS_WITH(process.wait_for_output("never", 20ms), doctest::Contains("here I am"));
}

TEST_CASE("process: an end without the awaited output is reported at once") {
  Process process({"sh", "-c", "exit 4"});
  CHECK_THROWS_WITH(process.wait_for_output("never", 60s), doctest::Contains("exit 4"));
}

TEST_CASE("process: the end of its scope kills and reaps it, however stubborn it is") {
  pid_t pid = 0;
  {
    Process process({"sh", "-c", "trap '' TERM INT HUP; echo up; while :; do sleep 0.05; done"});
    process.wait_for_output("up", 5s);
    pid = process.pid();
    CHECK_FALSE(is_gone(pid));
  }
  CHECK_FALSE(find_process(pid).has_value());
}

TEST_CASE("is_gone: a zombie is gone, a stopped process is not") {
  Process process({"sleep", "1000"});
  process.send_signal(SIGSTOP);
  CHECK(wait_until([&] { return find_process(process.pid())->state == 'T'; }, 5s));
  CHECK_FALSE(is_gone(process.pid()));
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  // Not at once where a sanitizer gives every process a thread of its own.
  CHECK(wait_until([&] { return find_process(zombie)->state == 'Z' && is_gone(zombie); }, 5s));
  CHECK(::waitpid(zombie, nullptr, 0) == zombie);
  CHECK(is_gone(zombie));
}

TEST_CASE("process table: descendants and arguments") {
  Process process({"sh", "-c", own_sleep() + " & echo up; wait"});
  process.wait_for_output("up", 5s);
  // Between fork and exec the child still has the arguments of its parent.
  const auto is_there = [&] {
    const auto below = descendants_of(process.pid());
    return below.size() == 1 && below[0].command == own_sleep();
  };
  CHECK(wait_until(is_there, 5s));
  CHECK(processes_with(own_sleep()).size() == 2);  // sleep, and sh with its script
  ::kill(descendants_of(process.pid()).at(0).pid, SIGKILL);
  CHECK(process.wait_exit(5s) == ExitStatus::exited(0));
}

TEST_CASE("leftovers: an escaped process is found, named and killed") {
  LeftoverCheck check;
  run({"sh", "-c", "setsid " + own_sleep() + " >/dev/null 2>&1 &"}, 5s);
  CHECK(wait_until([] { return !processes_with(own_sleep()).empty(); }, 5s));
  const auto problems = check.find(20ms);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].find(own_sleep()) != std::string::npos);
  CHECK(processes_with(own_sleep()).empty());
  CHECK(check.find(0ms).empty());
}

TEST_CASE("leftovers: what ends on its own in time is none") {
  LeftoverCheck check;
  run({"sh", "-c", "setsid sleep 0.2 >/dev/null 2>&1 &"}, 5s);
  CHECK(check.find(5s).empty());
}

TEST_CASE("leftovers: files and descriptors are found") {
  LeftoverCheck check;
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "left";
  std::ofstream(file) << "x";
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto problems = check.find(0ms);
  REQUIRE(problems.size() == 2);
  CHECK(problems[0] == "a file is left: " + file.string());
  CHECK(problems[1] == "a descriptor is left open: " + std::to_string(fd) + " -> /dev/null");
  CHECK_FALSE(std::filesystem::exists(file));
  ::close(fd);
}

// Not run by itself: the next test runs it in a test program of its own.
TEST_CASE("leftovers: a test that leaves a process" * doctest::skip()) {
  run({"sh", "-c", "setsid " + own_sleep() + " >/dev/null 2>&1 &"}, 5s);
}

TEST_CASE("leftovers: a test case that leaves something fails, and with it the test program") {
  const auto finished = run({"/proc/" + std::to_string(::getpid()) + "/exe", "--no-skip",
                             "--test-case=leftovers: a test that leaves a process"},
                            30s);
  CHECK(finished.status == ExitStatus::exited(1));
  CHECK(finished.out.find("a process is left: ") != std::string::npos);
  CHECK(finished.out.find("): sleep 1000.") != std::string::npos);
  CHECK(finished.out.find("1 failed") != std::string::npos);
}

TEST_CASE("environment: programs write nowhere but into the directory of the test") {
  const auto finished =
      run({"sh", "-c", "echo $XDG_RUNTIME_DIR $HOME $TMPDIR; env | grep -c ^MESHBUS_"}, 5s);
  const std::string root = environment_root().string();
  CHECK(finished.out == root + "/run " + root + "/home " + root + "/tmp\n0\n");
  CHECK_THROWS_WITH(bin("no-such-program"), doctest::Contains("build it first"));
}

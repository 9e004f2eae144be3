// The mesh programs in examples/, each rank a real process.
#include <doctest/doctest.h>

#include <string>

#include "tests/integration/proc/harness.h"
#include "tests/support/environment.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

TEST_CASE("count_lines: the ranks of a mesh find as much as one process alone") {
  const TempDir dir;
  std::uint64_t expected = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string folder = "d" + std::to_string(i % 3);
    std::filesystem::create_directories(dir.path() / folder);
    std::string text;
    for (int line = 0; line < i; ++line) text += "// " + std::to_string(line) + "\n";
    const char* extensions[] = {".h", ".hpp", ".hh", ".inl"};
    dir.write(folder + "/f" + std::to_string(i) + extensions[i % 4], text);
    expected += static_cast<std::uint64_t>(i);
  }
  dir.write("README", "not a header\n");
  const std::string total = "total: 50 files, " + std::to_string(expected) + " lines from ";

  const auto alone = run({bin("count_lines"), "--alone", dir.path()}, 30s);
  CHECK(alone.status == ExitStatus::exited(0));
  CHECK(alone.out == total + "1 process\n");

  ProcHarness harness({.ranks = 4});
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    harness.start_command(rank, {bin("count_lines"), dir.path()});
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    CHECK(harness.wait_exit(rank) == ExitStatus::exited(0));
    CHECK(harness.process(rank).out().find("rank " + std::to_string(rank) + ": ") == 0);
    CHECK((harness.process(rank).out().find(total + "4 ranks\n") != std::string::npos) ==
          (rank == 0));
  }
}

TEST_CASE("count_lines: says what it wants") {
  const auto finished = run({bin("count_lines")}, 30s);
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.err == "usage: count_lines [--alone] DIR\n");
  CHECK(run({bin("count_lines"), "/usr/include"}, 30s).status == ExitStatus::exited(78));
}

TEST_CASE("echo_proc: echoes, says who it is, and passes on") {
  ProcHarness harness({.ranks = 2});
  for (const std::uint64_t rank : {0U, 1U}) harness.start_command(rank, {bin("echo_proc")});
  harness.wait_ready(0);
  harness.wait_ready(1);
  CHECK(harness.call(0, 1, "hello").value() == "hello");
  CHECK(harness.call(1, 2, "").value() == "rank 1 of 2");
  CHECK(harness.call(0, 3, "1 over there").value() == "over there");
  CHECK(harness.call(0, 3, "2 nobody").error().detail().find("no rank 2 of 2") !=
        std::string::npos);
  CHECK(harness.call(0, 3, "1").error().detail() == "parse_error: expected RANK TEXT");
  CHECK(harness.stop(1, 0, 30s, "enough").has_value());
  CHECK(harness.wait_exit(1) == ExitStatus::exited(0));
  CHECK(harness.process(1).err() == "rank 1 stops: enough\n");
}

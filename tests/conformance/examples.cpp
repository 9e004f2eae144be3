// The programs in examples/ that are launchers, or start with one: what they print is right, and
// nothing is left of them.
#include <regex>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

Finished run_example(const Words& words) {
  Words command = words;
  command[0] = bin(words[0]);
  return run(command, in_time, {.environment = {{"MESHBUS_BIN", bin("meshbus")}}});
}

bool has_line(const std::string& text, const std::string& pattern) {
  return std::regex_search("\n" + text, std::regex("\n" + pattern + "\n"));
}

}  // namespace

TEST_CASE(
    "examples: a parameter sweep finds the best, also when a proc is lost and replaced on the "
    "way") {
  const auto whole = run_example({"sweep"});
  INFO(whole.out, whole.err);
  REQUIRE(whole.status == ExitStatus::exited(0));
  const auto lines = lines_of(whole.out);
  REQUIRE(lines.size() == 13);
  CHECK(lines.back().find("best of 12: 0.") == 0);
  CHECK(lines.back().find("; procs replaced: 0") != std::string::npos);

  const auto lost = run_example({"sweep", "--lose", "1"});
  INFO(lost.out, lost.err);
  REQUIRE(lost.status == ExitStatus::exited(0));
  auto found = lines_of(lost.out);
  REQUIRE(found.size() == 14);
  // When it is heard of among the lines of results is open.
  const auto word = std::find_if(found.begin(), found.end(), [](const std::string& line) {
    return line.find("lost: rank 1 (") == 0;
  });
  REQUIRE(word != found.end());
  CHECK(word->find("): killed by SIGKILL") != std::string::npos);
  found.erase(word);
  CHECK(found.back().find("; procs replaced: 1") != std::string::npos);
  CHECK(std::equal(found.begin(), found.end() - 1, lines.begin()));
  CHECK(run_example({"sweep", "--loose"}).status == ExitStatus::exited(2));
}

TEST_CASE("examples: a ring all-reduce over 8 procs on two hosts gives every rank the sum of all") {
  for (const char* const size : {"100000", "5"}) {
    const auto done = run_cli({"run", "--mesh", "--hosts", "2", "--per-host", "gpus=4",
                               "--no-prefix", "--", bin("ring_allreduce"), size});
    INFO(done.out, done.err);
    CHECK(done.status == ExitStatus::exited(0));
    Words expected;
    for (int rank = 0; rank < 8; ++rank) {
      expected.push_back("rank " + std::to_string(rank) +
                         " has the sums of 8 ranks: 1 became 36, " + size + " became " +
                         std::to_string(36 * std::stoul(size)));
    }
    CHECK(sorted(lines_of(done.out)) == expected);
  }
  const auto alone =
      run_cli({"run", "--mesh", "-n", "1", "--no-prefix", "--", bin("ring_allreduce"), "3"});
  CHECK(alone.out == "rank 0 has the sums of 1 ranks: 1 became 1, 3 became 3\n");
  CHECK(run_cli({"run", "--mesh", "-n", "1", "--", bin("ring_allreduce")}).status ==
        ExitStatus::exited(2));
}

TEST_CASE("examples: a program with a main loop of its own is a rank") {
  const auto done = run_cli({"run", "--mesh", "--hosts", "2", "--per-host", "ranks=2",
                             "--no-prefix", "--", bin("main_loop"), "20"});
  INFO(done.out, done.err);
  CHECK(done.status == ExitStatus::exited(0));
  Words expected;
  for (int rank = 0; rank < 4; ++rank)
    expected.push_back("rank " + std::to_string(rank) + " has made 20 steps");
  auto lines = lines_of(done.out);
  std::erase_if(lines, [](const std::string& line) { return line.ends_with("neighbour"); });
  CHECK(sorted(std::move(lines)) == expected);
  const auto alone = run_example({"main_loop"});
  CHECK(alone.status == ExitStatus::exited(78));
  CHECK(alone.err.find("not a mesh proc") != std::string::npos);
}

TEST_CASE("examples: the first program of the guide prints what the guide says") {
  const auto done = run_example({"hello"});
  INFO(done.out, done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
  for (int rank = 0; rank < 4; ++rank) {
    const auto number = std::to_string(rank);
    CHECK(has_line(done.out, "rank " + number + " \\(host=" + std::to_string(rank / 2) +
                                 ",gpu=" + std::to_string(rank % 2) +
                                 " on unix:.*\\): exit 0, and said " + number + " of 4"));
  }
  CHECK(host_directories().empty());
}

TEST_CASE("examples: the program of the guide prints what the guide says") {
  const auto done = run_example({"guide"});
  INFO(done.out, done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
  const auto has = [&](const std::string& line) { return has_line(done.out, line); };
  CHECK(has("rank 3 got a letter"));
  CHECK(has("rank 0 got a circular\nrank 2 got a circular"));
  CHECK(has("20s\n20s"));
  CHECK(has("lost rank 3 \\(host=1,gpu=1 on unix:.*\\): killed by SIGKILL"));
  CHECK(
      has("rank 0 got a roll call\nrank 1 got a roll call\nrank 2 got a roll call\nno_such_proc"));
  CHECK(has("42\n42"));
  CHECK(has("there is workers: 1 of 4 failed"));
  CHECK(has("rank 3: killed by SIGKILL"));
  for (int rank = 0; rank < 3; ++rank)
    CHECK(has(std::to_string(rank) + " says: rank " + std::to_string(rank) +
              " stops: enough is known"));
  CHECK(has("2 hosts are down"));
  for (int host = 0; host < 2; ++host) {
    const auto number = std::to_string(host);
    CHECK(has("host " + number + " is being started"));
    CHECK(has("host " + number + " \\(unix:.*\\) runs"));
    CHECK(has("host " + number +
              " \\(unix:.*\\) stopped: its process \\(pid [0-9]+\\) ended: exit 0"));
  }
  CHECK(has("rank 0: .*SIGTERM.*\nrank 1: .*SIGTERM.*|rank 1: .*SIGTERM.*\nrank 0: .*SIGTERM.*"));
  CHECK(host_directories().empty());
  const StandingHost host;
  const auto ended = run_example({"guide", "lent:" + host.address() + "@host=1/1"});
  INFO(ended.err);
  CHECK(ended.out == "1 of 1 hosts are down\n");
}

#include <doctest/doctest.h>

#include <cerrno>

#include "meshbus/rank_report.h"

using namespace meshbus;

TEST_CASE("rank_report: the shell's code of an end") {
  RankReport report;
  report.state = ProcState::stopped;
  report.exit_code = 3;
  CHECK(report.shell_code() == 3);
  CHECK(report.words() == "exit 3");
  report.state = ProcState::killed;
  report.signal = 11;
  report.core_dumped = true;
  CHECK(report.shell_code() == 139);
  CHECK(report.words() == "killed by SIGSEGV (core dumped)");
  report.state = ProcState::stopped;
  report.step = StopStep::term;
  report.signal = 15;
  CHECK(report.shell_code() == 143);
  CHECK(report.words() == "stopped by SIGTERM");
  CHECK_FALSE(report.is_failure());
  report.state = ProcState::failed;
  report.code = ErrorCode::exec_failed;
  report.os_error = ENOENT;
  CHECK(report.shell_code() == 127);
  report.os_error = EACCES;
  CHECK(report.shell_code() == 126);
  report.code = ErrorCode::timeout;
  CHECK(report.shell_code() == 125);
}

TEST_CASE("rank_report: unknown is neither an end nor a failure") {
  const RankReport report;
  CHECK_FALSE(report.is_terminal());
  CHECK_FALSE(report.is_failure());
  CHECK(to_string(report.state) == "unknown");
}

TEST_CASE("rank_report: a rank of a mesh without dimensions has no place to name") {
  RankReport report;
  report.host = *HostAddr::parse("tcp:h1:7420");
  report.state = ProcState::ready;
  CHECK(report.describe() == "rank 0 (on tcp:h1:7420): ready");
}

TEST_CASE("rank_report: labels that are no identifiers stay quoted in a sentence") {
  RankReport report;
  report.point = "\"dim/0\"=1/2,x=0/3";
  report.state = ProcState::running;
  CHECK(report.describe() == "rank 0 (\"dim/0\"=1,x=0 on local:0): running");
}

TEST_CASE("rank_report: sets of ranks are joined and printed") {
  CHECK(to_rank_set({0, 1, 2, 5, 7, 8}) == RankSet{{0, 3}, {5, 6}, {7, 9}});
  CHECK(to_string(to_rank_set({0, 1, 2, 5, 7, 8})) == "0-2,5,7-8");
  CHECK(to_string(RankSet{}) == "none");
  CHECK(contains({{2, 4}}, 3));
  CHECK_FALSE(contains({{2, 4}}, 4));
}

TEST_CASE("rank_report: signals that have no name are numbers") {
  CHECK(signal_name(9) == "SIGKILL");
  CHECK(signal_name(200) == "signal 200");
}

TEST_CASE("rank_report: who was ended before it was ready is stuck, who is done is not") {
  std::vector<RankReport> ranks(4);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].rank = i;
    ranks[i].host = *HostAddr::parse("unix:/h");
    ranks[i].state = ProcState::stopped;
  }
  ranks[1].signal = 15;
  ranks[2].exit_code = 1;
  ranks[3].state = ProcState::failed;
  const auto stuck = describe_stuck(ranks);
  CHECK(stuck.starts_with("on unix:/h: ranks 1-3 "));
}

TEST_CASE("rank_report: a plain proc is not waited for to say hello") {
  RankReport rank;
  rank.host = *HostAddr::parse("unix:/h");
  rank.pid = 5;
  rank.state = ProcState::failed;
  CHECK(describe_stuck({rank}) == "on unix:/h: rank 0 exec'd, not ready yet");
  RankReport other = rank;
  other.rank = 1;
  other.reason = "not ready within 100ms; stage: exec'd, no hello from it yet";
  CHECK(describe_stuck({rank, other}) == "on unix:/h: ranks 0-1 exec'd, no hello yet");
}

TEST_CASE("rank_report: a rank that starts after its host gave up on it is where it was then") {
  RankReport rank;
  rank.host = *HostAddr::parse("unix:/h");
  rank.pid = 5;
  rank.state = ProcState::failed;
  rank.launch.exec = std::chrono::system_clock::now();
  rank.reason = "not ready within 100ms; stage: spawned, not yet exec'd";
  CHECK(describe_stuck({rank}) == "on unix:/h: rank 0 spawned, not exec'd yet");
  rank.reason = "not ready within 100ms; stage: queued, waits for its turn to be started";
  CHECK(describe_stuck({rank}) == "on unix:/h: rank 0 not spawned yet");
}

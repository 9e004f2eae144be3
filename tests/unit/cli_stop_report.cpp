// `meshbus stop` says of which ranks it is true that they have ended.
#include "cli/mesh/stop_report.h"

#include <doctest/doctest.h>

using namespace meshbus;
using namespace meshbus::cli;

namespace {

RankReport rank_in(std::uint64_t rank, ProcState state, Cause cause = Cause::unknown) {
  RankReport report;
  report.rank = rank;
  report.state = state;
  report.cause = cause;
  return report;
}

}  // namespace

TEST_CASE("stop_report: ranks that had ended before the stop are counted apart") {
  MeshReport before;
  before.ranks = {rank_in(0, ProcState::running), rank_in(1, ProcState::stopped, Cause::exited)};
  const auto report = report_stop(before, {rank_in(0, ProcState::stopped, Cause::stopped), rank_in(1, ProcState::stopped, Cause::exited)});
  CHECK(report.text() == "1 rank ended; 1 had ended before");
  CHECK(report.unkillable.empty());
}

TEST_CASE("stop_report: a rank that not even SIGKILL ended has not ended") {
  MeshReport before;
  before.ranks = {rank_in(0, ProcState::running), rank_in(1, ProcState::running)};
  const auto report =
      report_stop(before, {rank_in(0, ProcState::stopped, Cause::stopped), rank_in(1, ProcState::failed, Cause::unkillable)});
  CHECK(report.text() == "1 rank ended");
  CHECK(to_string(report.unkillable) == "1");
  CHECK(named(report.unkillable) == "rank 1");
}

TEST_CASE("stop_report: a rank that still runs is not counted") {
  MeshReport before;
  before.ranks = {rank_in(0, ProcState::running)};
  CHECK(report_stop(before, {rank_in(0, ProcState::stopping)}).text() == "0 ranks ended");
}

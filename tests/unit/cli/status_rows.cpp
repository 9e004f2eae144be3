#include "cli/watch/status_rows.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace meshbus;
using namespace meshbus::cli;

namespace {

RankReport rank_that(std::uint64_t rank, ProcState state, int exit_code = 0, int signal = 0) {
  RankReport report;
  report.rank = rank;
  report.state = state;
  report.exit_code = exit_code;
  report.signal = signal;
  return report;
}

}  // namespace

TEST_CASE("status_rows: failures stand apart from success, with how they ended") {
  StatusRows rows;
  rows.add(rank_that(3, ProcState::stopped, 255));
  rows.add(rank_that(0, ProcState::stopped));
  rows.add(rank_that(1, ProcState::stopped));
  rows.add(rank_that(2, ProcState::killed, 0, 9));
  auto asked = rank_that(4, ProcState::stopped, 0, 15);
  asked.step = StopStep::term;
  rows.add(asked);
  CHECK(StatusRows::text({{"train-1", rows}}) ==
        "MESH     STATUS   RANKS  END\n"
        "train-1  Stopped  0-1    exit 0\n"
        "train-1  Stopped  4      stopped by SIGTERM\n"
        "train-1  Failed   3      exit 255\n"
        "train-1  Failed   2      killed by SIGKILL\n");
  CHECK(rows.has(Status::Kind::failed));
  const auto json = rows.json();
  REQUIRE(json.size() == 4);
  CHECK(json[0].dump() ==
        R"({"status":"Stopped","reason":"exit 0","exit_code":0,"signal":null,"restarts":0,)"
        R"("ranks":"0-1"})");
  CHECK(json[2].at("exit_code") == 255);
  CHECK(json[3].at("exit_code") == nullptr);
  CHECK(json[3].at("signal") == 9);
}

TEST_CASE("status_rows: what is not there has no column") {
  StatusRows rows;
  rows.add(rank_that(0, ProcState::running));
  rows.add(rank_that(1, ProcState::ready));
  rows.add_unheard(2, false);
  CHECK(StatusRows::text({{"train-1", rows}}) ==
        "MESH     STATUS   RANKS\n"
        "train-1  Unknown  2\n"
        "train-1  Running  0-1\n");
  auto again = rank_that(5, ProcState::running);
  again.restarts = 2;
  again.trouble = Trouble::frozen;
  StatusRows other;
  other.add(again);
  CHECK(StatusRows::text({{"serve-2", other}, {"train-1", rows}}) ==
        "MESH     STATUS   RANKS  RESTARTS  TROUBLE\n"
        "serve-2  Running  5             2  frozen\n"
        "train-1  Unknown  2\n"
        "train-1  Running  0-1\n");
  CHECK(other.troubles_json().dump() == R"([{"trouble":"frozen","ranks":"5"}])");
}

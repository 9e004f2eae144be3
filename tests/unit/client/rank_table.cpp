#include <doctest/doctest.h>

#include "client/src/monitors/rank_table.h"

#include "wire/supervision_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const HostAddr kA = *HostAddr::parse("unix:/a");
const HostAddr kB = *HostAddr::parse("unix:/b");
constexpr RankTable::Time kStart{1000s};
/// Far from kStart: what ends here ends in a mesh that is up.
constexpr RankTable::Time kLater = kStart + 10s;

ProcMeshRef mesh_of(std::uint64_t per_host) {
  return *ProcMeshRef::make(*Name::make("m", 1), {kA, kB},
                            *Extent::make({{"host", 2}, {"gpu", per_host}}));
}

struct State {
  std::uint64_t rank = 0;
  std::uint64_t generation = 1;
  wire::ProcState state = wire::ProcState::ready;
  std::int64_t ended_ms = 0;
  int exit_code = 0;
  std::uint8_t signal = 0;
  wire::StopStep step = wire::StopStep::none;
};

wire::RankState make(const State& state) {
  return {state.rank,
          state.generation,
          1,
          1'000'000,
          state.ended_ms * 1'000'000,
          static_cast<std::uint32_t>(100 + state.rank),
          state.exit_code,
          state.state,
          state.signal,
          false,
          state.step,
          0};
}

struct ExitReport {
  explicit ExitReport(std::uint64_t rank, const std::string& reason = "exit 3",
                      const std::string& tail = "") {
    wire::ExitReportT native;
    native.rank = rank;
    native.reason = reason;
    native.stderr_tail.assign(tail.begin(), tail.end());
    builder.Finish(wire::ExitReport::Pack(builder, &native));
  }
  const wire::ExitReport& operator*() const {
    return *flatbuffers::GetRoot<wire::ExitReport>(builder.GetBufferPointer());
  }
  flatbuffers::FlatBufferBuilder builder;
};

/// What a host tells in one message.
struct Message {
  Message(const std::vector<State>& states, const std::vector<wire::LaunchTimes>& launch,
          const std::string& reason_of_0) {
    wire::StateChangedT native;
    native.mesh = "m";
    native.host = "unix:/a";
    for (const auto& state : states) native.ranks.push_back(make(state));
    native.launch = launch;
    if (!reason_of_0.empty()) {
      native.exit_reports.push_back(std::make_unique<wire::ExitReportT>());
      native.exit_reports.back()->reason = reason_of_0;
    }
    builder.Finish(wire::StateChanged::Pack(builder, &native));
  }
  RankTable::Update news() const {
    const auto* const message =
        flatbuffers::GetRoot<wire::StateChanged>(builder.GetBufferPointer());
    return {.ranks = message->ranks(),
            .exit_reports = message->exit_reports(),
            .launch = message->launch()};
  }
  flatbuffers::FlatBufferBuilder builder;
};

/// All ranks are ready since kStart.
RankTable ready_table(std::uint64_t per_host) {
  const auto mesh = mesh_of(per_host);
  RankTable table(mesh);
  for (std::uint64_t rank = 0; rank < 2 * per_host; ++rank)
    table.apply(rank < per_host ? kA : kB, make({.rank = rank}), kStart);
  return table;
}

}  // namespace

TEST_CASE(
    "rank_table: a trouble stands until it is over or the rank is not ready any more, and is no "
    "end") {
  auto table = ready_table(1);
  const auto trouble = [](wire::Trouble which, std::uint8_t process = 'T',
                          std::uint64_t incarnation = 1) {
    return wire::RankTrouble(0, incarnation, 1'000'000'000, 12'345, which, process);
  };
  CHECK_FALSE(table.apply(kB, trouble(wire::Trouble::frozen)));
  CHECK_FALSE(table.apply(kA, trouble(wire::Trouble::frozen, 'T', 2)));
  CHECK(table.apply(kA, trouble(wire::Trouble::slow)));
  CHECK(table.rank(0).trouble_reason == "it answers, but its last sign of life took 12.3 s");
  CHECK(table.apply(kA, trouble(wire::Trouble::frozen)));
  CHECK_FALSE(table.apply(kA, trouble(wire::Trouble::frozen)));
  CHECK(table.rank(0).trouble == Trouble::frozen);
  CHECK(table.rank(0).trouble_reason == "stopped by a signal, nothing from it for 12.3 s");
  CHECK(table.rank(0).trouble_since.has_value());
  CHECK_FALSE(table.rank(0).is_terminal());
  CHECK_FALSE(table.has_untold());
  CHECK(table.apply(kA, trouble(wire::Trouble::none)));
  CHECK(table.rank(0).trouble_reason.empty());
  CHECK_FALSE(table.rank(0).trouble_since.has_value());
  CHECK(table.apply(kA, trouble(wire::Trouble::frozen, 'S')));
  CHECK(table.rank(0).trouble_reason == "nothing from it for 12.3 s");
  CHECK(table.apply(kA, make({.rank = 0, .generation = 2, .state = wire::ProcState::stopping}),
                    kLater));
  CHECK(table.rank(0).trouble == Trouble::none);
  CHECK_FALSE(table.apply(kA, trouble(wire::Trouble::frozen)));
}

TEST_CASE("rank_table: knows the place of each rank before anything is heard") {
  const RankTable table(mesh_of(2));
  REQUIRE(table.size() == 4);
  CHECK(table.rank(3).point == "host=1/2,gpu=1/2");
  CHECK(table.rank(3).host == kB);
  CHECK(table.rank(3).host_index == 1);
  CHECK(table.rank(3).state == ProcState::unknown);
  CHECK_FALSE(table.is_ended());
}

TEST_CASE("rank_table: the larger generation wins, and nothing leaves a terminal state") {
  RankTable table(mesh_of(1));
  CHECK(table.apply(kA, make({.rank = 0, .generation = 2}), kStart));
  CHECK_FALSE(table.apply(
      kA, make({.rank = 0, .generation = 1, .state = wire::ProcState::starting}), kStart));
  CHECK(table.rank(0).state == ProcState::ready);
  CHECK(table.apply(kA, make({.rank = 0, .generation = 3, .state = wire::ProcState::stopped}),
                    kStart));
  CHECK_FALSE(table.apply(kA, make({.rank = 0, .generation = 4}), kStart));
  CHECK(table.rank(0).state == ProcState::stopped);
}

TEST_CASE(
    "rank_table: a rank that was ordered to begin anew counts as starting, and late news of its "
    "former life change nothing") {
  auto table = ready_table(1);
  table.set_judged();
  const auto end = make({.rank = 0,
                         .generation = 2,
                         .state = wire::ProcState::stopped,
                         .ended_ms = 5,
                         .exit_code = 3});
  table.apply(kA, end, kLater);
  CHECK_FALSE(table.is_over(0, kLater));
  CHECK(table.is_over(0, kLater + RankTable::kExitReportLimit));
  table.apply(kA, *ExitReport(0, "exit 3"));
  CHECK(table.is_over(0, kLater));
  table.begin_incarnation(0);
  CHECK(table.rank(0).state == ProcState::starting);
  CHECK(table.rank(0).restarts == 1);
  CHECK(table.rank(0).point == "host=0/2,gpu=0/1");
  CHECK(table.not_ended({}) == std::vector<std::uint64_t>{0, 1});
  CHECK(table.is_alive_on(0));
  CHECK(table.has_unreported_on(0));
  CHECK(table.take_failures(kLater + 10s).empty());
  CHECK_FALSE(table.apply(kA, end, kLater));
  CHECK_FALSE(table.apply(kA, *ExitReport(0, "exit 3")));
  SUBCASE("it begins, and ends with another exit report") {
    auto next = make({.rank = 0, .generation = 3, .state = wire::ProcState::ready});
    next.mutate_incarnation(2);
    next.mutate_restarts(1);
    CHECK(table.apply(kA, next, kLater));
    next.mutate_generation(4);
    next.mutate_state(wire::ProcState::stopped);
    CHECK(table.apply(kA, next, kLater));
    CHECK(table.apply(kA, *ExitReport(0, "exit 0")));
    const auto outcome = table.outcome();
    CHECK(outcome.ranks[0].incarnation == 2);
    CHECK(outcome.ranks[0].reason == "exit 0");
    CHECK_FALSE(outcome.first_failure.has_value());
    REQUIRE(outcome.former_lives.size() == 1);
    CHECK(outcome.former_lives[0].reason == "exit 3");
    CHECK(outcome.former_lives[0].is_restarting);
  }
  SUBCASE("nobody wants it any more: the former life was the last one") {
    table.cancel_incarnation(0, kLater + 1s);
    CHECK(table.rank(0).exit_code == 3);
    CHECK(table.rank(0).restarts == 0);
    CHECK(table.outcome().former_lives.empty());
    REQUIRE(table.take_failures(kLater + 2s).size() == 1);
    table.decide(0);
    CHECK(table.outcome().exit_code() == 3);
  }
  SUBCASE("it is not to be had") {
    table.fail_incarnation(0, Error(ErrorCode::refused, "drained"), kLater + 1s, {});
    const auto failures = table.take_failures(kLater + 2s);
    REQUIRE(failures.size() == 1);
    CHECK(failures[0].state == ProcState::failed);
    CHECK(failures[0].cause == Cause::spawn_failed);
    CHECK(failures[0].reason.starts_with("cannot be started anew: "));
    CHECK(failures[0].restarts == 1);
  }
  SUBCASE("its host is lost") {
    const auto lost = table.lose(0, "gone", kLater + 1s, {});
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].cause == Cause::host_lost);
    CHECK(table.rank(0).cause == Cause::host_lost);
    CHECK(table.take_failures(kLater + 2s).size() == 1);
  }
  table.apply(kB, make({.rank = 1, .generation = 2, .state = wire::ProcState::stopped}),
              kLater + 3s);
  table.apply(kB, *ExitReport(1, "exit 0"));
  CHECK(table.is_complete(kLater + 3s));
}

TEST_CASE(
    "rank_table: a message that tells several changes of a rank gives a report for each, as the "
    "rank was then") {
  RankTable table(mesh_of(1));
  wire::LaunchTimes times;
  times.mutate_ready_ns(7);
  const Message message(
      {{.rank = 0, .generation = 1, .state = wire::ProcState::starting},
       {.rank = 0, .generation = 2, .state = wire::ProcState::running},
       {.rank = 0, .generation = 3, .state = wire::ProcState::ready},
       {.rank = 0, .generation = 4, .state = wire::ProcState::killed, .ended_ms = 5, .signal = 9},
       {.rank = 0, .generation = 4, .state = wire::ProcState::killed, .ended_ms = 5, .signal = 9}},
      {times}, "killed by SIGKILL");
  const auto changes = table.apply(kA, message.news(), kStart, true);
  CHECK(changes.is_news);
  REQUIRE(changes.ended.size() == 1);
  CHECK(changes.ended[0].rank == 0);
  CHECK(changes.ended[0].reason == "killed by SIGKILL");
  REQUIRE(changes.reports.size() == 4);
  const std::vector<ProcState> states{ProcState::starting, ProcState::running, ProcState::ready,
                                      ProcState::killed};
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& report = changes.reports[i];
    INFO("change ", i, ": ", report.words());
    CHECK(report.state == states[i]);
    CHECK(report.generation == i + 1);
    CHECK(report.launch.ready.has_value() == (i >= 2));
    CHECK(report.reason == (i == 3 ? "killed by SIGKILL" : ""));
    CHECK(report.signal == (i == 3 ? 9 : 0));
  }
  // Told again it is no news; without reports it is applied all the same.
  const auto again = table.apply(kA, message.news(), kStart, true);
  CHECK_FALSE(again.is_news);
  CHECK(again.reports.empty());
  RankTable other(mesh_of(1));
  const auto quiet = other.apply(kA, message.news(), kStart, false);
  CHECK(quiet.is_news);
  CHECK(quiet.reports.empty());
  REQUIRE(quiet.ended.size() == 1);
  CHECK(quiet.ended[0].rank == 0);
  CHECK(other.rank(0).reason == "killed by SIGKILL");
}

TEST_CASE("rank_table: what another host says about a rank, or about no rank at all, is ignored") {
  RankTable table(mesh_of(1));
  CHECK_FALSE(table.apply(kB, make({.rank = 0}), kStart));
  CHECK_FALSE(table.apply(kA, make({.rank = 77}), kStart));
  CHECK_FALSE(table.apply(kA, *ExitReport(77)));
  CHECK_FALSE(table.apply(kA, *ExitReport(0)));
}

TEST_CASE("rank_table: a state that this version does not know is unknown") {
  RankTable table(mesh_of(1));
  CHECK(table.apply(kA, make({.rank = 0, .state = static_cast<wire::ProcState>(99)}), kStart));
  CHECK(table.rank(0).state == ProcState::unknown);
}

TEST_CASE("rank_table: a failure is told once, with its exit report") {
  auto table = ready_table(1);
  table.apply(kA,
              make({.rank = 0,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .ended_ms = 5,
                    .exit_code = 3}),
              kLater);
  CHECK(table.take_failures(kLater).empty());
  CHECK(table.next_due(kLater) == kLater + RankTable::kFailureLimit);
  table.apply(kA, *ExitReport(0, "exit 3", "oh no\n"));
  const auto failures = table.take_failures(kLater + 1ms);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].reason == "exit 3");
  CHECK(failures[0].stderr_tail == "oh no\n");
  CHECK(failures[0].describe() == "rank 0 (host=0,gpu=0 on unix:/a): exit 3");
  CHECK(table.take_failures(kLater + 10s).empty());
  CHECK(table.has_told_failure());
}

TEST_CASE("rank_table: a failure without an exit report is told after 300 ms") {
  auto table = ready_table(1);
  table.apply(kA,
              make({.rank = 0,
                    .generation = 2,
                    .state = wire::ProcState::killed,
                    .ended_ms = 5,
                    .signal = 9}),
              kLater);
  CHECK(table.take_failures(kLater + 299ms).empty());
  const auto failures = table.take_failures(kLater + 300ms);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].words() == "killed by SIGKILL");
  // The exit report still completes what is known, and is not told again.
  CHECK(table.apply(kA, *ExitReport(0, "killed by SIGKILL, not sent by meshbus")));
  CHECK(table.take_failures(kLater + 10s).empty());
}

TEST_CASE(
    "rank_table: while the mesh starts, failures wait until every rank has been up for a moment") {
  RankTable table(mesh_of(1));
  table.apply(kB,
              make({.rank = 1, .state = wire::ProcState::stopped, .ended_ms = 10, .exit_code = 2}),
              kStart);
  table.apply(kB, *ExitReport(1, "exit 2"));
  CHECK(table.take_failures(kStart).empty());
  CHECK(table.next_due(kStart) == kStart + RankTable::kFailureLimit);
  table.apply(kA, make({.rank = 0}), kStart + 20ms);
  CHECK(table.next_due(kStart + 20ms) == kStart + 20ms + RankTable::kStartLimit);
  CHECK(table.take_failures(kStart + 69ms).empty());
  CHECK(table.take_failures(kStart + 70ms).size() == 1);
}

TEST_CASE(
    "rank_table: a mesh that ends while it starts is not complete before its failures were handed "
    "out") {
  RankTable table(mesh_of(1));
  table.apply(kB,
              make({.rank = 1, .state = wire::ProcState::stopped, .ended_ms = 20, .exit_code = 3}),
              kStart);
  table.apply(kB, *ExitReport(1, "exit 3"));
  CHECK(table.take_failures(kStart).empty());
  table.apply(kA,
              make({.rank = 0, .state = wire::ProcState::stopped, .ended_ms = 10, .exit_code = 2}),
              kStart + 1ms);
  SUBCASE("all exit reports have come: nothing is left that could change their order") {
    table.apply(kA, *ExitReport(0, "exit 2"));
    CHECK_FALSE(table.is_complete(kStart + 1ms));
    CHECK(table.next_due(kStart + 1ms) <= kStart + 1ms);
    const auto failures = table.take_failures(kStart + 1ms);
    REQUIRE(failures.size() == 2);
    CHECK(failures[0].rank == 0);
    CHECK(failures[1].rank == 1);
    CHECK(table.is_complete(kStart + 1ms));
    CHECK_FALSE(table.next_due(kStart + 1ms).has_value());
  }
  SUBCASE("an exit report is missing: the failures do not wait for it as long as the mesh does") {
    CHECK(table.take_failures(kStart + 50ms).empty());
    CHECK(table.take_failures(kStart + 51ms).size() == 1);
    CHECK(table.next_due(kStart + 51ms) == kStart + 1ms + RankTable::kFailureLimit);
    CHECK(table.take_failures(kStart + 1ms + RankTable::kFailureLimit).size() == 1);
    CHECK_FALSE(table.is_complete(kStart + 1ms + RankTable::kFailureLimit));
    CHECK(table.is_complete(kStart + 1ms + RankTable::kExitReportLimit));
  }
  SUBCASE("nobody has asked until no exit report is waited for any more") {
    CHECK_FALSE(table.is_complete(kStart + 1ms + RankTable::kExitReportLimit));
    CHECK(table.take_failures(kStart + 1ms + RankTable::kExitReportLimit).size() == 2);
    CHECK(table.is_complete(kStart + 1ms + RankTable::kExitReportLimit));
  }
  CHECK(table.take_failures(kLater).empty());
}

TEST_CASE("rank_table: a rank that never starts does not hold the failures of others for long") {
  RankTable table(mesh_of(1));
  table.apply(kB,
              make({.rank = 1, .state = wire::ProcState::stopped, .ended_ms = 10, .exit_code = 2}),
              kStart);
  table.apply(kB, *ExitReport(1, "exit 2"));
  CHECK(table.take_failures(kStart + RankTable::kFailureLimit).size() == 1);
}

TEST_CASE("rank_table: what was stopped on request is no failure, whatever signal it took") {
  auto table = ready_table(1);
  table.apply(kA,
              make({.rank = 0,
                    .generation = 2,
                    .state = wire::ProcState::killed,
                    .ended_ms = 5,
                    .signal = 9,
                    .step = wire::StopStep::kill}),
              kLater);
  table.apply(kB,
              make({.rank = 1,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .ended_ms = 5,
                    .exit_code = 1,
                    .step = wire::StopStep::term}),
              kLater);
  CHECK(table.is_ended());
  CHECK(table.take_failures(kLater + 10s).empty());
  CHECK_FALSE(table.outcome().first_failure.has_value());
  CHECK(table.outcome().exit_code() == 0);
}

TEST_CASE("rank_table: the first failure is the earliest end, not the first that was heard of") {
  auto table = ready_table(2);
  table.apply(kA,
              make({.rank = 0,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .ended_ms = 900,
                    .exit_code = 4}),
              kLater);
  table.apply(kB,
              make({.rank = 3,
                    .generation = 2,
                    .state = wire::ProcState::killed,
                    .ended_ms = 700,
                    .signal = 11}),
              kLater + 1ms);
  const auto outcome = table.outcome();
  REQUIRE(outcome.first_failure.has_value());
  CHECK(outcome.first_failure->rank == 3);
  CHECK(outcome.exit_code() == 128 + 11);
  const auto told = table.take_failures(kLater + 1s);
  REQUIRE(told.size() == 2);
  CHECK(told[0].rank == 3);
}

TEST_CASE("rank_table: the first failure is the one that ended first, also by a millisecond") {
  auto table = ready_table(2);
  table.apply(kB,
              make({.rank = 2,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .ended_ms = 700,
                    .exit_code = 2}),
              kLater);
  table.apply(kA,
              make({.rank = 1,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .ended_ms = 701,
                    .exit_code = 1}),
              kLater);
  table.apply(kA,
              make({.rank = 0,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .ended_ms = 760,
                    .exit_code = 9}),
              kLater);
  CHECK(table.outcome().first_failure->rank == 2);
}

TEST_CASE("rank_table: a lost host fails the ranks that had not ended, and they stay so") {
  auto table = ready_table(2);
  table.apply(kB, make({.rank = 2, .generation = 2, .state = wire::ProcState::stopped}), kLater);
  const auto now = std::chrono::system_clock::now();
  const auto lost = table.lose(1, "host lost: gone", kLater, now);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].rank == 3);
  CHECK(table.lose(1, "host lost: again", kLater, now).empty());
  CHECK(table.rank(2).state == ProcState::stopped);
  CHECK(table.rank(3).reason == "host lost: gone");
  CHECK(table.rank(3).shell_code() == 125);
  CHECK_FALSE(table.apply(kB, make({.rank = 3, .generation = 9, .state = wire::ProcState::stopped}),
                          kLater));
  CHECK_FALSE(table.apply(kB, *ExitReport(3)));
  const auto failures = table.take_failures(kLater);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].code == ErrorCode::host_unreachable);
  CHECK(table.is_alive_on(0));
  CHECK_FALSE(table.is_alive_on(1));
}

TEST_CASE("rank_table: a mesh is complete with all exit reports, or 2 s after the last end") {
  auto table = ready_table(1);
  table.apply(kA, make({.rank = 0, .generation = 2, .state = wire::ProcState::stopped}), kLater);
  table.apply(kB, make({.rank = 1, .generation = 2, .state = wire::ProcState::stopped}), kLater);
  CHECK(table.is_ended());
  CHECK_FALSE(table.is_complete(kLater));
  CHECK(table.next_due(kLater) == kLater + RankTable::kExitReportLimit);
  table.apply(kA, *ExitReport(0, "exit 0"));
  CHECK_FALSE(table.is_complete(kLater));
  CHECK(table.is_complete(kLater + RankTable::kExitReportLimit));
  table.apply(kB, *ExitReport(1, "exit 0"));
  CHECK(table.is_complete(kLater));
}

TEST_CASE("rank_table: a mesh without ranks is complete at once") {
  const RankTable table(
      *ProcMeshRef::make(*Name::make("m", 1), {kA}, *Extent::make({{"host", 1}, {"gpu", 0}})));
  CHECK(table.size() == 0);
  CHECK(table.is_complete(kStart));
  CHECK_FALSE(table.next_due(kStart).has_value());
}

TEST_CASE("rank_table: a quick exit 0 counts as created, other ends do not") {
  RankTable table(mesh_of(2));
  table.apply(kA, make({.rank = 0, .state = wire::ProcState::stopped}), kStart);
  table.apply(kA, make({.rank = 1, .state = wire::ProcState::stopped, .exit_code = 1}), kStart);
  table.apply(kB, make({.rank = 2}), kStart);
  table.apply(kB,
              make({.rank = 2, .generation = 2, .state = wire::ProcState::stopped, .exit_code = 1}),
              kStart);
  table.apply(kB, make({.rank = 3, .state = wire::ProcState::running}), kStart);
  CHECK(table.created() == 2);
  // A rank that was stopped on request, by a signal or by exiting, has not reached the status.
  table.apply(kB,
              make({.rank = 3,
                    .generation = 2,
                    .state = wire::ProcState::stopped,
                    .signal = 15,
                    .step = wire::StopStep::term}),
              kStart);
  RankTable asked(mesh_of(1));
  asked.apply(kA,
              make({.rank = 0, .state = wire::ProcState::stopped, .step = wire::StopStep::asked}),
              kStart);
  CHECK(table.created() == 2);
  CHECK(asked.created() == 0);
}

TEST_CASE("rank_table: what is missing is named, with stage and pid, and long lists are cut") {
  auto table = ready_table(8);
  CHECK(table.describe({1}) == "rank 1 (host=0,gpu=1 on unix:/a): ready, pid 101");
  std::vector<std::uint64_t> all;
  for (std::uint64_t rank = 0; rank < 16; ++rank) all.push_back(rank);
  const auto text = table.describe(all);
  CHECK(text.find("rank 7 (") != std::string::npos);
  CHECK(text.find("rank 8 (") == std::string::npos);
  CHECK(text.ends_with("and 8 more: ranks 8-15"));
  CHECK(RankTable(mesh_of(1)).describe({0}) ==
        "rank 0 (host=0,gpu=0 on unix:/a): not heard of yet");
  CHECK(RankTable(mesh_of(4)).describe(all = {0, 1, 2, 5}) ==
        "rank 0 (host=0,gpu=0 on unix:/a): not heard of yet; ranks 1-2,5: the same");
  table.apply(kA, make({.rank = 3, .generation = 9, .state = wire::ProcState::killed, .signal = 9}),
              kStart);
  CHECK(table.describe({3, 2}) ==
        "rank 3 (host=0,gpu=3 on unix:/a): killed by SIGKILL; rank 2 (host=0,gpu=2 on unix:/a): "
        "ready, pid 102");
}

TEST_CASE(
    "rank_table: ranks that come are unknown, and their failures wait as long as they are held") {
  RankTable table(mesh_of(1));
  for (std::uint64_t rank = 0; rank < 2; ++rank)
    CHECK(table.apply(rank == 0 ? kA : kB, make({.rank = rank}), kStart));
  const auto grown = *ProcMeshRef::make(*Name::make("m", 1), {kA, kB, kA},
                                        *Extent::make({{"host", 3}, {"gpu", 1}}));
  table.hold_from(2);
  table.grow(grown);
  CHECK(table.size() == 3);
  CHECK(table.rank(0).point == "host=0/3,gpu=0/1");
  CHECK(table.rank(2).state == ProcState::unknown);
  CHECK(table.not_ended({}).size() == 3);
  CHECK(table.apply(kA, make({.rank = 2, .state = wire::ProcState::killed, .signal = 9}), kLater));
  CHECK(table.apply(kA, *ExitReport(2)));
  CHECK(table.take_failures(kLater + 1s).empty());
  CHECK_FALSE(table.next_due(kLater + 1s).has_value());
  table.hold_from({});
  const auto told = table.take_failures(kLater + 1s);
  REQUIRE(told.size() == 1);
  CHECK(told[0].rank == 2);
}

TEST_CASE("rank_table: ranks that go are former lives, and the rest can end without them") {
  RankTable table(mesh_of(1));
  CHECK(table.apply(kA, make({.rank = 0}), kStart));
  CHECK(table.apply(kB, make({.rank = 1, .state = wire::ProcState::killed, .signal = 9}), kLater));
  const auto smaller =
      *ProcMeshRef::make(*Name::make("m", 1), {kA}, *Extent::make({{"host", 1}, {"gpu", 1}}));
  const auto gone = table.shrink(smaller);
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].rank == 1);
  CHECK(gone[0].signal == 9);
  CHECK(table.size() == 1);
  CHECK(table.take_failures(kLater + 1s).empty());
  CHECK_FALSE(table.is_ended());
  CHECK_FALSE(table.apply(kB, make({.rank = 1, .generation = 7}), kLater));
  CHECK(table.apply(kA, make({.rank = 0, .generation = 2, .state = wire::ProcState::stopped}),
                    kLater));
  CHECK(table.apply(kA, *ExitReport(0)));
  CHECK(table.is_complete(kLater));
  const auto outcome = table.outcome();
  CHECK_FALSE(outcome.first_failure.has_value());
  CHECK(outcome.ranks.size() == 1);
  REQUIRE(outcome.former_lives.size() == 1);
  CHECK(outcome.former_lives[0].rank == 1);
  REQUIRE(table.end_of(1).has_value());
  CHECK(table.end_of(1)->signal == 9);
  CHECK(table.end_of(7)->is_terminal());
}

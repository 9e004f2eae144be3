// Which ranks begin a new life, when, and how often (spec 8.9).
#include <doctest/doctest.h>

#include <csignal>
#include <set>

#include "client/src/restart/restarter.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

using On = RestartPolicy::On;
using Ranks = std::vector<std::uint64_t>;
const Restarter::Time t0{1000s};

RankReport end_of(std::uint64_t rank, ProcState state, int exit_code = 0, int signal = 0) {
  RankReport end;
  end.rank = rank;
  end.state = state;
  end.exit_code = exit_code;
  end.signal = signal;
  end.cause = signal != 0 ? Cause::signaled : Cause::exited;
  return end;
}
RankReport exited(std::uint64_t rank, int code) {
  return end_of(rank, ProcState::stopped, code);
}
RankReport killed(std::uint64_t rank, int signal) {
  return end_of(rank, ProcState::killed, 0, signal);
}
RankReport failed(std::uint64_t rank, Cause cause, ErrorCode code = ErrorCode::none) {
  auto end = end_of(rank, ProcState::failed);
  end.cause = cause;
  end.code = code;
  return end;
}
RankReport stopped(std::uint64_t rank) {
  auto end = end_of(rank, ProcState::stopped, 0, SIGTERM);
  end.step = StopStep::term;
  end.cause = Cause::stopped;
  return end;
}

/// Without chance.
RestartPolicy policy(On on, std::optional<std::uint64_t> budget = {}, Gang gang = Gang::one) {
  return {.on = on, .budget = budget, .gang = gang, .delay = 1s, .max_delay = 8s, .jitter = 0};
}

/// A mesh of which one rank ends after the other.
struct World {
  explicit World(RestartPolicy with, std::uint64_t ranks = 4)
      : restarter(std::move(with), ranks, 1) {}

  Restarter::Actions end(const RankReport& report) {
    auto actions = restarter.on_end(report, now);
    restarter.on_over(report.rank);
    return actions;
  }
  /// Those that are started when that time has passed.
  Ranks after(std::chrono::milliseconds time) {
    now += time;
    return restarter.turn(now).starts;
  }

  Restarter restarter;
  Restarter::Time now = t0;
};

}  // namespace

TEST_CASE("restarter: which ends are answered by a new life") {
  struct Row {
    const char* what;
    RankReport end;
    bool on_failure;
    bool always;
  };
  auto consequence = killed(1, SIGKILL);
  consequence.consequence = true;
  const Row rows[] = {
      {"exit 0", exited(1, 0), false, true},
      {"exit 3", exited(1, 3), true, true},
      {"SIGKILL", killed(1, SIGKILL), true, true},
      {"not ready in time", failed(1, Cause::not_ready, ErrorCode::timeout), true, true},
      {"frozen", failed(1, Cause::frozen, ErrorCode::timeout), true, true},
      {"out of memory",
       [] {
         auto end = killed(1, SIGKILL);
         end.cause = Cause::out_of_memory;
         return end;
       }(),
       true, true},
      {"stopped by somebody", stopped(1), false, false},
      {"no such file", failed(1, Cause::exec_failed, ErrorCode::exec_failed), false, false},
      {"cannot be started here", failed(1, Cause::spawn_failed, ErrorCode::io_error), false, false},
      {"host lost", failed(1, Cause::host_lost, ErrorCode::host_unreachable), false, false},
      {"keeper lost", failed(1, Cause::keeper_lost, ErrorCode::internal), false, false},
      {"did not even end by SIGKILL", failed(1, Cause::unkillable), false, false},
      {"a consequence of something else", consequence, false, false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    for (const auto on : {On::never, On::failure, On::always}) {
      World world(policy(on));
      const auto actions = world.end(row.end);
      const bool is_answered =
          (on == On::failure && row.on_failure) || (on == On::always && row.always);
      CHECK(actions.decided.size() == (is_answered ? 1 : 0));
      // Each failure is either answered, or for good.
      CHECK(actions.given_up == (!is_answered && row.end.is_failure() ? Ranks{1} : Ranks{}));
      CHECK(world.restarter.is_busy() == is_answered);
      CHECK(world.after(10s) == (is_answered ? Ranks{1} : Ranks{}));
    }
  }
}

TEST_CASE("restarter: only these codes") {
  auto only = policy(On::failure);
  only.codes = {75, 137};
  World world(only);
  CHECK(world.end(exited(0, 75)).decided.size() == 1);
  CHECK(world.end(killed(1, SIGKILL)).decided.size() == 1);
  CHECK(world.end(exited(2, 1)).given_up == Ranks{2});
  CHECK(world.after(1s) == Ranks{0, 1});
}

TEST_CASE("restarter: delays double up to the longest one, and begin again after a long life") {
  World world(policy(On::failure));
  for (const auto expected : {1s, 2s, 4s, 8s, 8s}) {
    const auto actions = world.end(exited(2, 1));
    REQUIRE(actions.decided.size() == 1);
    CHECK(actions.decided[0].delay == expected);
    CHECK(world.restarter.next_due() == world.now + expected);
    CHECK(world.after(expected - 1ms).empty());
    CHECK(world.after(1ms) == Ranks{2});
  }
  CHECK_FALSE(world.restarter.next_due().has_value());
  world.now += 8s + 1ms;
  CHECK(world.end(exited(2, 1)).decided.at(0).delay == 1s);
}

TEST_CASE(
    "restarter: jitter takes a part of the delay away, differently for each, and the same for the "
    "same seed") {
  auto with = policy(On::failure);
  with.jitter = 0.5;
  const auto delays = [&](std::uint64_t seed) {
    Restarter restarter(with, 20, seed);
    std::set<std::chrono::milliseconds> all;
    for (std::uint64_t rank = 0; rank < 20; ++rank) {
      const auto delay = restarter.on_end(exited(rank, 1), t0).decided.at(0).delay;
      CHECK(delay >= 500ms);
      CHECK(delay <= 1s);
      all.insert(delay);
    }
    return all;
  };
  CHECK(delays(7).size() > 10);
  CHECK(delays(7) == delays(7));
  CHECK(delays(7) != delays(8));
}

TEST_CASE(
    "restarter: the budget is of each rank with gang one, and what comes after it is for good") {
  World world(policy(On::failure, 2));
  for (std::uint64_t restart = 1; restart <= 2; ++restart) {
    const auto actions = world.end(exited(1, 3));
    CHECK(actions.decided.at(0).restart == restart);
    CHECK(world.after(8s) == Ranks{1});
  }
  CHECK(world.end(exited(0, 3)).decided.size() == 1);
  const auto last = world.end(exited(1, 3));
  CHECK(last.decided.empty());
  CHECK(last.given_up == Ranks{1});
  CHECK(world.after(8s) == Ranks{0});
}

TEST_CASE("restarter: a budget within a window") {
  auto within = policy(On::failure, 2);
  within.window = 60s;
  World world(within);
  world.end(exited(0, 1));
  CHECK(world.after(10s) == Ranks{0});
  world.end(exited(0, 1));
  CHECK(world.after(49s) == Ranks{0});
  // The first one was 59 s ago, then 60.
  SUBCASE("too soon") {
    CHECK(world.end(exited(0, 1)).given_up == Ranks{0});
  }
  SUBCASE("late enough") {
    world.now += 1s;
    const auto actions = world.end(exited(0, 1));
    CHECK(actions.decided.at(0).restart == 2);
  }
}

TEST_CASE("restarter: budget 0 and policy always: an exit 0 is an end, not a failure") {
  World world(policy(On::always, 0));
  const auto actions = world.end(exited(0, 0));
  CHECK(actions.decided.empty());
  CHECK(actions.given_up.empty());
  CHECK_FALSE(world.restarter.is_busy());
}

TEST_CASE("restarter: a gang is stopped, and begins anew when all of it is over") {
  struct Row {
    Gang gang;
    Ranks ranks;
    Ranks to_stop;
  };
  for (const auto& row : {Row{Gang::one, {1}, {}}, Row{Gang::all, {0, 1, 2, 3}, {0, 2}},
                          Row{Gang::rest, {1, 2, 3}, {2}}}) {
    World world(policy(On::failure, 1, row.gang));
    CHECK(world.end(exited(3, 0)).given_up.empty());  // done, but one of the gang
    const auto actions = world.restarter.on_end(exited(1, 3), world.now);
    REQUIRE(actions.decided.size() == 1);
    CHECK(actions.decided[0].cause == 1);
    CHECK(actions.decided[0].ranks == row.ranks);
    CHECK(actions.decided[0].to_stop == row.to_stop);
    CHECK(world.after(2s).empty());  // rank 1 is not over
    world.restarter.on_over(1);
    for (const auto rank : row.to_stop) {
      CHECK(world.after(1s).empty());
      world.end(stopped(rank));
    }
    CHECK(world.after(0s) == row.ranks);
    // The budget of a gang is that of the mesh.
    const auto again = world.end(exited(0, 3));
    CHECK(again.given_up == (row.gang == Gang::all    ? Ranks{0}
                             : row.gang == Gang::rest ? Ranks{0}
                                                      : Ranks{}));
  }
}

TEST_CASE("restarter: who fails while its gang is on its way joins it and costs nothing") {
  World world(policy(On::failure, 1, Gang::rest));
  CHECK(world.end(exited(2, 3)).decided.at(0).ranks == Ranks{2, 3});
  CHECK(world.end(exited(3, 4)).decided.empty());
  const auto wider = world.end(exited(1, 5));
  REQUIRE(wider.decided.size() == 1);
  CHECK(wider.decided[0].ranks == Ranks{1, 2, 3});
  CHECK(wider.decided[0].to_stop.empty());
  CHECK(wider.decided[0].restart == 1);
  CHECK(world.after(1s) == Ranks{1, 2, 3});
  CHECK(world.end(exited(2, 3)).given_up == Ranks{2});
}

TEST_CASE("restarter: one that cannot come back keeps its gang from it") {
  World world(policy(On::failure, 5, Gang::all));
  world.end(exited(1, 3));
  world.end(stopped(0));
  const auto actions = world.end(failed(2, Cause::host_lost, ErrorCode::host_unreachable));
  // The rank that cannot come back is given up first; it alone keeps the others from a start.
  CHECK(actions.given_up == Ranks{2, 1});
  CHECK_FALSE(world.restarter.is_busy());
  world.end(stopped(3));
  CHECK(world.after(60s).empty());
}

TEST_CASE("restarter: nothing begins after a stop, and what was to be mended is for good") {
  World world(policy(On::failure, {}, Gang::one));
  world.end(exited(1, 3));
  world.end(killed(2, SIGSEGV));
  CHECK(world.restarter.stop({{1, 2}}).given_up == Ranks{1});
  CHECK(world.after(8s) == Ranks{2});
  world.end(exited(2, 3));
  CHECK(world.restarter.stop({}).given_up == Ranks{2});
  CHECK_FALSE(world.restarter.is_busy());
  CHECK(world.end(exited(0, 1)).given_up == Ranks{0});
  CHECK(world.after(60s).empty());
}

TEST_CASE("restarter: who was stopped by somebody is not started with its gang") {
  World world(policy(On::failure, {}, Gang::all));
  world.end(stopped(2));
  CHECK(world.end(exited(0, 1)).decided.at(0).ranks == Ranks{0, 1, 3});
}

TEST_CASE(
    "restarter: a mesh that grows restarts its new ranks, and one that shrinks none of the old") {
  World world(policy(On::failure, {}, Gang::all), 2);
  world.restarter.resize(3);
  auto actions = world.end(exited(2, 1));
  REQUIRE(actions.decided.size() == 1);
  CHECK(actions.decided[0].ranks == Ranks{0, 1, 2});
  // The rank that was the cause is taken away: nothing waits for it.
  world.restarter.resize(2);
  CHECK_FALSE(world.restarter.is_busy());
  CHECK_FALSE(world.restarter.next_due().has_value());
  world.restarter.resize(3);
  CHECK_FALSE(world.restarter.is_waiting(2));
}

// A restart policy that has come to a controller: what it says, what it orders, and what the owner
// that follows finds (spec 8.9).
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "client/controller/host_restarts.h"
#include "client/controller/mesh_restarts.h"
#include "wire/lifecycle_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

using Ranks = std::vector<std::uint64_t>;
using Starts = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
const MeshRestarts::Time kFirst{1000s};

RestartPlan plan_of(std::optional<std::uint64_t> budget, Gang gang = Gang::one) {
  return {.policy = {.on = RestartPolicy::On::failure,
                     .budget = budget,
                     .gang = gang,
                     .delay = 1s,
                     .max_delay = 8s,
                     .jitter = 0}};
}

RankReport killed_rank(std::uint64_t rank, std::uint64_t restarts = 0) {
  RankReport end;
  end.rank = rank;
  end.restarts = restarts;
  end.state = ProcState::killed;
  end.signal = SIGKILL;
  end.cause = Cause::killed_from_outside;
  return end;
}

RankReport stopped_for(std::uint64_t rank, std::uint64_t cause, std::uint64_t restarts = 0) {
  RankReport end;
  end.rank = rank;
  end.restarts = restarts;
  end.state = ProcState::stopped;
  end.signal = SIGTERM;
  end.step = StopStep::term;
  end.cause = Cause::stopped;
  end.consequence = true;
  end.because = cause;
  return end;
}

/// As many live ranks, none of which was restarted.
std::map<std::uint64_t, std::uint64_t> live(std::uint64_t ranks) {
  std::map<std::uint64_t, std::uint64_t> all;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) all.emplace(rank, 0);
  return all;
}

}  // namespace

TEST_CASE("mesh_restarts: a rank that fails is said to restart, and does after the delay") {
  MeshRestarts restarts(plan_of(3), 2, 1);
  CHECK(restarts.begin({}, live(2), kFirst).notices.empty());
  const auto decided = restarts.on_end(killed_rank(1), kFirst);
  REQUIRE(decided.notices.size() == 1);
  CHECK_FALSE(decided.notices[0].is_given_up);
  CHECK(decided.notices[0].ranks == RankSet{{1, 2}});
  CHECK(decided.notices[0].words ==
        "rank 1 is restarted in 1.0 s (restart 1 of 3): killed by SIGKILL");
  CHECK(decided.starts.empty());
  CHECK(restarts.is_waiting(1));
  CHECK(restarts.next_due() == kFirst + 1s);
  CHECK(restarts.turn(kFirst + 1s).starts == Starts{{1, 1}});
  // It is not known to live before its host says so.
  CHECK(restarts.is_waiting(1));
  restarts.on_live(1, 0);  // late news of the incarnation before
  CHECK(restarts.is_waiting(1));
  restarts.on_live(1, 1);
  CHECK_FALSE(restarts.is_waiting(1));
  // The end of the former incarnation, told once more, is none of the new one.
  CHECK(restarts.on_end(killed_rank(1), kFirst + 2s).notices.empty());
  CHECK(restarts.on_end(killed_rank(1, 1), kFirst + 3s).notices.size() == 1);
}

TEST_CASE("mesh_restarts: what an owner before has used counts, and the end of it is told once") {
  MeshRestarts first(plan_of(2), 1, 1);
  first.begin({}, live(1), kFirst);
  first.on_end(killed_rank(0), kFirst);
  // The restart that has not begun is for the owner that follows to decide.
  CHECK(first.plan(kFirst).used.empty());
  first.turn(kFirst + 1s);
  const auto plan = first.plan(kFirst + 1s);
  REQUIRE(plan.used.size() == 1);
  CHECK(plan.used[0].all == 1);
  CHECK_FALSE(plan.is_over);

  MeshRestarts second(plan, 1, 1);
  second.begin({}, {{0, 1}}, kFirst + 10s);
  const auto again = second.on_end(killed_rank(0, 1), kFirst + 11s);
  REQUIRE(again.notices.size() == 1);
  CHECK(again.notices[0].words.find("(restart 2 of 2)") != std::string::npos);
  second.turn(kFirst + 20s);
  second.on_live(0, 2);
  const auto over = second.on_end(killed_rank(0, 2), kFirst + 21s);
  REQUIRE(over.notices.size() == 1);
  CHECK(over.notices[0].is_given_up);
  CHECK(over.notices[0].words ==
        "rank 0 is not restarted: its budget of 2 restarts is used up; its last end: killed by "
        "SIGKILL");
  CHECK(over.starts.empty());
  CHECK(second.is_over());
  CHECK(second.plan(kFirst + 22s).is_over);
  CHECK(second.turn(kFirst + 100s).notices.empty());
  CHECK(second.given_up().size() == 1);
}

TEST_CASE("mesh_restarts: a rank that has ended before the controller came is restarted as well") {
  MeshRestarts restarts(plan_of(3), 2, 1);
  const auto begun = restarts.begin({killed_rank(0)}, {{1, 0}}, kFirst);
  REQUIRE(begun.notices.size() == 1);
  CHECK(restarts.turn(kFirst + 1s).starts == Starts{{0, 1}});
}

TEST_CASE("mesh_restarts: what a host says of ranks that there are not is left out") {
  MeshRestarts restarts(plan_of(3), 2, 1);
  constexpr std::uint64_t far = std::uint64_t{1} << 40;
  CHECK(restarts.begin({killed_rank(far)}, {{0, 0}, {far + 1, 0}}, kFirst).notices.empty());
  CHECK(restarts.on_end(killed_rank(far + 1), kFirst).notices.empty());
  CHECK_FALSE(restarts.is_over());
  restarts.on_end(killed_rank(0), kFirst);
  CHECK(restarts.turn(kFirst + 1s).starts == Starts{{0, 1}});
}

TEST_CASE("mesh_restarts: a gang is stopped because of a rank, and all of it restarts") {
  MeshRestarts restarts(plan_of(1, Gang::all), 3, 1);
  restarts.begin({}, live(3), kFirst);
  const auto decided = restarts.on_end(killed_rank(1), kFirst);
  REQUIRE(decided.stops.size() == 1);
  CHECK(decided.stops[0].ranks == Ranks{0, 2});
  CHECK(decided.stops[0].cause == 1);
  CHECK(restarts.on_end(stopped_for(0, 1), kFirst + 100ms).notices.empty());
  CHECK(restarts.turn(kFirst + 1s).starts.empty());  // rank 2 lives
  CHECK(restarts.on_end(stopped_for(2, 1), kFirst + 2s).starts == Starts{{0, 1}, {1, 1}, {2, 1}});
  for (const auto rank : {0U, 1U, 2U}) restarts.on_live(rank, 1);
  // The budget is that of the mesh. Without it the others go, too.
  const auto over = restarts.on_end(killed_rank(0, 1), kFirst + 3s);
  REQUIRE(over.notices.size() == 1);
  CHECK(over.notices[0].is_given_up);
  REQUIRE(over.stops.size() == 1);
  CHECK(over.stops[0].ranks == Ranks{1, 2});
  CHECK(over.stops[0].why == "rank 0 is not restarted: its budget of 1 restart is used up");
  CHECK_FALSE(restarts.is_over());
  CHECK(restarts.on_end(stopped_for(1, 0, 1), kFirst + 4s).notices.empty());
  CHECK(restarts.on_end(stopped_for(2, 0, 1), kFirst + 4s).notices.empty());
  CHECK(restarts.is_over());
}

TEST_CASE("mesh_restarts: a gang of which an owner before has restarted a part is completed") {
  auto plan = plan_of(3, Gang::all);
  plan.used = {{.rank = 0, .all = 1, .in_a_row = 1, .spent = {kFirst}}};
  MeshRestarts restarts(plan, 2, 1);
  // Rank 1 had failed and runs again; rank 0 was stopped for it, and does not.
  const auto begun = restarts.begin({stopped_for(0, 1)}, {{1, 1}}, kFirst + 5s);
  CHECK(begun.notices.empty());
  CHECK(begun.stops.empty());
  CHECK(begun.starts == Starts{{0, 1}});
  // This was no restart of its own.
  CHECK(restarts.plan(kFirst + 6s).used[0].all == 1);
}

TEST_CASE("mesh_restarts: a gang that failed as a whole and runs in part is charged once") {
  auto plan = plan_of(1, Gang::all);
  plan.used = {{.rank = 0, .all = 1, .in_a_row = 1, .spent = {kFirst}}};
  // Both had failed. The owner before could restart rank 0, and rank 2, which had stopped for rank
  // 1; it had no answer for ranks 1 and 3.
  MeshRestarts restarts(plan, 4, 1);
  const auto begun =
      restarts.begin({killed_rank(1), stopped_for(3, 1)}, {{0, 1}, {2, 1}}, kFirst + 5s);
  CHECK(begun.notices.empty());
  CHECK(begun.stops.empty());
  CHECK(begun.starts == Starts{{1, 1}, {3, 1}});
  CHECK(restarts.plan(kFirst + 6s).used[0].all == 1);

  // An end of the newest incarnation is another one, and the budget is used up.
  MeshRestarts newest(plan, 2, 1);
  const auto over = newest.begin({killed_rank(1, 1)}, {{0, 1}}, kFirst + 5s);
  CHECK(over.starts.empty());
  REQUIRE(over.stops.size() == 1);
  CHECK(over.stops[0].ranks == Ranks{0});
}

TEST_CASE("mesh_restarts: what its gang has left behind is not restarted later") {
  auto plan = plan_of(3, Gang::all);
  plan.policy.codes = {75};
  plan.used = {{.rank = 0, .all = 1, .in_a_row = 1, .spent = {kFirst}}};
  auto wanted = stopped_for(1, 0);
  wanted.because.reset();
  wanted.consequence = false;
  MeshRestarts stopped(plan, 2, 1);
  CHECK(stopped.begin({wanted}, {{0, 1}}, kFirst + 5s).starts.empty());
  // The policy does not name this code.
  MeshRestarts other(plan, 2, 1);
  CHECK(other.begin({killed_rank(1)}, {{0, 1}}, kFirst + 5s).starts.empty());

  // With Gang::rest a later rank may have been restarted without an earlier one.
  auto rest = plan_of(3, Gang::rest);
  rest.used = plan.used;
  MeshRestarts earlier(rest, 2, 1);
  const auto decided = earlier.begin({killed_rank(0)}, {{1, 1}}, kFirst + 5s);
  CHECK(decided.starts.empty());
  CHECK(decided.notices.size() == 1);
  MeshRestarts later(rest, 2, 1);
  CHECK(later.begin({killed_rank(1)}, {{0, 1}}, kFirst + 5s).starts == Starts{{1, 1}});
}

TEST_CASE(
    "mesh_restarts: what a gang has left behind begins on the same charge, the lowest rank too") {
  // Ranks 1 to 3 restart together; the owner dies when rank 1 alone has not begun.
  MeshRestarts before(plan_of(2, Gang::rest), 4, 1);
  (void)before.begin({}, live(4), kFirst);
  (void)before.on_end(killed_rank(1), kFirst);
  for (const auto rank : {2U, 3U}) (void)before.on_end(stopped_for(rank, 1), kFirst);
  REQUIRE(before.turn(kFirst + 1s).starts == Starts{{1, 1}, {2, 1}, {3, 1}});
  flatbuffers::FlatBufferBuilder builder;
  const ClockPair here{kFirst + 1s, std::chrono::system_clock::time_point(50'000s)};
  const auto wire = to_wire(before.plan(kFirst + 1s), here);
  CHECK(wire.begun.size() == 1);
  builder.Finish(wire::RestartPlan::Pack(builder, &wire));
  const auto plan =
      from_wire(*flatbuffers::GetRoot<wire::RestartPlan>(builder.GetBufferPointer()), here);

  MeshRestarts after(plan, 4, 1);
  const auto begun = after.begin({killed_rank(1)}, {{0, 0}, {2, 1}, {3, 1}}, kFirst + 5s);
  CHECK(begun.notices.empty());
  CHECK(begun.stops.empty());
  CHECK(begun.starts == Starts{{1, 1}});
  REQUIRE(after.plan(kFirst + 5s).used.size() == 1);
  CHECK(after.plan(kFirst + 5s).used[0].all == 1);
  // Its next end is another one.
  (void)after.on_live(1, 1);
  const auto again = after.on_end(killed_rank(1, 1), kFirst + 6s);
  REQUIRE(again.notices.size() == 1);
  CHECK(again.notices[0].words.find("(restart 2 of 2)") != std::string::npos);

  // A later rank was restarted without rank 1, which ends for the first time.
  auto alone = plan;
  alone.begun = {{3, 1}};
  MeshRestarts first(alone, 4, 1);
  CHECK(first.begin({killed_rank(1)}, {{0, 0}, {2, 0}, {3, 1}}, kFirst + 5s).notices.size() == 1);
}

TEST_CASE("mesh_restarts: ranks that wait and are stopped are told once, the others go on") {
  MeshRestarts restarts(plan_of(3, Gang::all), 3, 1);
  (void)restarts.begin({}, live(3), kFirst);
  (void)restarts.on_end(killed_rank(1), kFirst);
  const auto stopped = restarts.stop({{1, 2}});
  REQUIRE(stopped.notices.size() == 1);
  CHECK(stopped.notices[0].is_given_up);
  CHECK(stopped.notices[0].ranks == RankSet{{1, 2}});
  CHECK(stopped.notices[0].words == "rank 1 is not restarted: somebody has stopped it");
  CHECK(restarts.stop({{1, 2}}).notices.empty());
  CHECK_FALSE(restarts.is_waiting(1));
  (void)restarts.on_end(stopped_for(0, 1), kFirst + 1s);
  CHECK(restarts.on_end(stopped_for(2, 1), kFirst + 1s).starts == Starts{{0, 1}, {2, 1}});

  // An order that is out already is void, too.
  const auto late = restarts.stop({{0, 1}});
  CHECK(late.cancelled == Ranks{0});
  CHECK(late.notices.size() == 1);

  // It was stopped while nobody answered for the mesh.
  MeshRestarts next(plan_of(3), 2, 1);
  CHECK(next.stop({{0, 1}}).notices.empty());
  const auto begun = next.begin({killed_rank(0)}, {{1, 0}}, kFirst);
  REQUIRE(begun.notices.size() == 1);
  CHECK(begun.notices[0].is_given_up);
  CHECK_FALSE(next.is_waiting(0));
}

TEST_CASE("mesh_restarts: a rank that is lost with its host ends its gang, once") {
  RankReport lost = killed_rank(2);
  lost.cause = Cause::host_lost;
  lost.consequence = true;
  auto other = lost;
  other.rank = 3;
  MeshRestarts restarts(plan_of(3, Gang::all), 4, 1);
  const auto begun = restarts.begin({lost, other, killed_rank(0)}, {{1, 0}}, kFirst);
  const auto told = std::count_if(begun.notices.begin(), begun.notices.end(),
                                  [](const auto& notice) { return notice.is_given_up; });
  CHECK(told == 1);
  CHECK_FALSE(restarts.is_waiting(0));
  REQUIRE_FALSE(begun.stops.empty());
  CHECK(begun.stops[0].ranks == Ranks{1});
  (void)restarts.on_end(stopped_for(1, 2), kFirst + 1s);
  CHECK(restarts.is_over());
}

TEST_CASE("mesh_restarts: whatever its host was lost by, a rank that is not restarted is told") {
  for (const auto cause : {Cause::host_lost, Cause::keeper_lost}) {
    RankReport lost = killed_rank(1);
    lost.cause = cause;
    lost.consequence = true;
    MeshRestarts restarts(plan_of(3), 2, 1);
    (void)restarts.begin({}, live(2), kFirst);
    const auto over = restarts.on_end(lost, kFirst);
    REQUIRE(over.notices.size() == 1);
    CHECK(over.notices[0].is_given_up);
    CHECK(over.notices[0].words.starts_with(
        "rank 1 is not restarted: its host is lost, which alone knows how it is started; "));
  }
}

TEST_CASE("mesh_restarts: what is stopped is not restarted, and what its host refuses is told") {
  MeshRestarts stopped(plan_of(3), 2, 1);
  stopped.begin({}, live(2), kFirst);
  stopped.on_end(killed_rank(0), kFirst);
  stopped.turn(kFirst + 1s);
  CHECK(stopped.stop({}).cancelled == Ranks{0});
  CHECK_FALSE(stopped.is_waiting(0));
  CHECK(stopped.on_end(killed_rank(1), kFirst + 2s).notices.empty());
  CHECK(stopped.is_over());

  MeshRestarts refused(plan_of(3), 2, 1);
  refused.begin({}, live(2), kFirst);
  refused.on_end(killed_rank(0), kFirst);
  refused.turn(kFirst + 1s);
  const auto outcome = refused.on_refused(0, "it is drained", kFirst + 2s);
  REQUIRE(outcome.notices.size() == 1);
  CHECK(outcome.notices[0].words == "rank 0 is not restarted: its host refuses: it is drained");
  CHECK_FALSE(refused.is_waiting(0));
  CHECK(refused.turn(kFirst + 100s).starts.empty());
}

TEST_CASE("host_restarts: an order is repeated until the host has done it") {
  HostRestarts host;
  CHECK_FALSE(host.take_start(kFirst));
  host.start(3, 1);
  host.start(4, 1);
  host.start(7, 2);
  auto order = host.take_start(kFirst);
  REQUIRE(order);
  CHECK(order->restarts == 1);
  REQUIRE(order->ranks.size() == 1);
  CHECK(order->ranks[0].begin() == 3);
  CHECK(order->ranks[0].end() == 5);
  CHECK_FALSE(host.take_start(kFirst));
  // Its former incarnation is not over.
  CHECK(host.on_start_answer(fail(ErrorCode::would_block, ""), kFirst).empty());
  CHECK(host.next_due() == kFirst + 20ms);
  CHECK_FALSE(host.take_start(kFirst + 19ms));
  REQUIRE(host.take_start(kFirst + 20ms));
  CHECK(host.on_start_answer(fail(ErrorCode::timeout, ""), kFirst + 20ms).empty());
  REQUIRE(host.take_start(kFirst + 2s));
  CHECK(host.on_start_answer({}, kFirst + 2s).empty());
  host.on_state(3, true, 1);
  host.on_state(4, true, 0);
  order = host.take_start(kFirst + 4s);
  REQUIRE(order);
  CHECK(order->ranks[0].begin() == 4);
  CHECK(host.on_start_answer(fail(ErrorCode::not_exist, ""), kFirst + 4s) == Ranks{4});
  order = host.take_start(kFirst + 6s);
  REQUIRE(order);
  CHECK(order->restarts == 2);
  host.on_state(7, false, 2);  // it has ended again already
  CHECK(host.is_idle());
}

TEST_CASE("host_restarts: a host that goes on to refuse our orders is not asked for ever") {
  HostRestarts host;
  host.start(3, 1);
  auto now = kFirst;
  for (int i = 1; i < HostRestarts::kMostRefusals; ++i, now += 2s) {
    REQUIRE(host.take_start(now));
    CHECK(host.on_start_answer(fail(ErrorCode::unauthorised, ""), now).empty());
  }
  REQUIRE(host.take_start(now));
  CHECK(host.on_start_answer(fail(ErrorCode::unauthorised, ""), now) == Ranks{3});
  CHECK(host.is_idle());
  // Ten in a row: one that was done begins anew.
  host.start(3, 1);
  REQUIRE(host.take_start(now));
  CHECK(host.on_start_answer({}, now).empty());
  now += 2s;
  REQUIRE(host.take_start(now));
  CHECK(host.on_start_answer(fail(ErrorCode::unauthorised, ""), now).empty());
}

TEST_CASE("host_restarts: stops name the rank that is their reason, one reason in each order") {
  HostRestarts host;
  host.stop(0, 5, "because of 5");
  host.stop(1, 6, "because of 6");
  auto order = host.take_stop(kFirst);
  REQUIRE(order);
  CHECK(order->because == 5);
  CHECK(order->reason == "because of 5");
  host.on_stop_answer(false, kFirst);
  CHECK_FALSE(host.take_stop(kFirst + 500ms));
  order = host.take_stop(kFirst + 1s);
  REQUIRE(order);
  CHECK(order->because == 5);
  host.on_stop_answer(true, kFirst + 1s);
  order = host.take_stop(kFirst + 1s);
  REQUIRE(order);
  CHECK(order->because == 6);
  host.on_stop_answer(true, kFirst + 1s);
  CHECK_FALSE(host.take_stop(kFirst + 9s));
  host.on_connected();  // the agent is another one, which may not know the order
  CHECK(host.take_stop(kFirst + 9s));
}

TEST_CASE("mesh_restarts: a rank that begins after its gang was given up is stopped") {
  MeshRestarts restarts(plan_of(3, Gang::all), 2, 1);
  (void)restarts.begin({killed_rank(0), stopped_for(1, 0)}, {}, kFirst);
  const auto started = restarts.turn(kFirst + 60s);
  REQUIRE(started.starts == Starts{{0, 1}, {1, 1}});
  const auto refused = restarts.on_refused(1, "it is drained", kFirst + 61s);
  CHECK(refused.stops.empty());
  CHECK(refused.cancelled == Ranks{0});
  // Its host had begun it before the order was void.
  const auto late = restarts.on_live(0, 1);
  REQUIRE(late.stops.size() == 1);
  CHECK(late.stops[0].ranks == Ranks{0});
  CHECK(late.stops[0].cause == 1);
  CHECK(restarts.on_live(0, 1).stops.empty());
}

TEST_CASE("restart_plan: one that no mesh can have is bounded") {
  wire::RestartPlanT hostile;
  hostile.budget = UINT64_MAX;
  for (std::uint64_t rank = 0; rank < 3; ++rank) hostile.used.emplace_back(rank, UINT64_MAX, 1U, 0);
  const ClockPair here{kFirst, std::chrono::system_clock::time_point(50'000s)};
  const auto read = [&] {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::RestartPlan::Pack(builder, &hostile));
    return from_wire(*flatbuffers::GetRoot<wire::RestartPlan>(builder.GetBufferPointer()), here);
  };
  std::size_t counted = 0;
  for (const auto& usage : read().used) counted += usage.spent.size();
  CHECK(counted <= 1'000'000);
  hostile.window_ms = UINT64_MAX;
  for (int i = 0; i < 5000; ++i) hostile.times.emplace_back(0, i % 2 == 0 ? INT64_MIN : INT64_MAX);
  CHECK(read().used[0].spent.size() == 1000);
}

TEST_CASE("restart_plan: a host gets the part of its ranks, and no time that does not count") {
  const ClockPair here{kFirst, std::chrono::system_clock::time_point(50'000s)};
  auto plan = plan_of(2);
  plan.policy.window = 60s;
  for (std::uint64_t rank = 0; rank < 20'000; ++rank)
    plan.used.push_back({.rank = rank,
                         .all = 9,
                         .in_a_row = 1,
                         .spent = {kFirst - 70s, kFirst - 50s, kFirst - 40s, kFirst - 30s}});
  const auto part = part_of(plan, [](std::uint64_t rank) { return rank < 10'000; });
  CHECK(part.used.size() == 10'000);
  const auto wire = to_wire(part, here);
  // Two of each rank would count: a host keeps fewer, the latest.
  CHECK(wire.times.size() == 16384);
  const auto latest = std::count_if(wire.times.begin(), wire.times.end(), [](const auto& time) {
    return time.time_ns() == 49'970'000'000'000;
  });
  CHECK(latest == 10'000);
  const auto few = part_of(plan, [](std::uint64_t rank) { return rank < 10; });
  CHECK(to_wire(few, here).times.size() == 20);

  // The account of a gang is everybody's; what was ordered is told by rank.
  auto gang = plan_of(2, Gang::all);
  gang.used = {{.rank = 0, .all = 1, .in_a_row = 1, .spent = {kFirst}}};
  gang.begun = {{0, 1}, {7, 1}};
  const auto other = part_of(gang, [](std::uint64_t rank) { return rank == 7; });
  CHECK(other.used.size() == 1);
  CHECK(other.begun == std::map<std::uint64_t, std::uint64_t>{{7, 1}});
}

TEST_CASE("restart_plan: it travels as it is, times by the clock of the day") {
  const ClockPair here{kFirst, std::chrono::system_clock::time_point(50'000s)};
  auto plan = plan_of(5, Gang::rest);
  plan.policy.codes = {75, 137};
  plan.policy.window = 60s;
  plan.policy.jitter = 0.25;
  plan.used = {{.rank = 0, .all = 4, .in_a_row = 2, .spent = {kFirst - 30s, kFirst - 10s}}};
  flatbuffers::FlatBufferBuilder builder;
  const auto wire = to_wire(plan, here);
  builder.Finish(wire::RestartPlan::Pack(builder, &wire));
  const auto* const sent = flatbuffers::GetRoot<wire::RestartPlan>(builder.GetBufferPointer());
  // Another machine, which was started later.
  const ClockPair there{MeshRestarts::Time{7s}, std::chrono::system_clock::time_point(50'002s)};
  const auto read = from_wire(*sent, there);
  CHECK(read.policy.on == plan.policy.on);
  CHECK(read.policy.codes == plan.policy.codes);
  CHECK(read.policy.budget == 5);
  CHECK(read.policy.window == 60s);
  CHECK(read.policy.gang == Gang::rest);
  CHECK(read.policy.delay == 1s);
  CHECK(read.policy.max_delay == 8s);
  CHECK(read.policy.jitter == doctest::Approx(0.25));
  REQUIRE(read.used.size() == 1);
  CHECK(read.used[0].all == 4);
  CHECK(read.used[0].in_a_row == 2);
  CHECK(read.used[0].spent ==
        std::vector<MeshRestarts::Time>{there.steady - 32s, there.steady - 12s});

  auto other = read;
  other.used[0].all = 3;
  other.used.push_back({.rank = 2, .all = 1});
  auto merged = read;
  merge_into(merged, other);
  REQUIRE(merged.used.size() == 2);
  CHECK(merged.used[0].all == 4);
  CHECK(merged.used[1].rank == 2);
  // The account that has used more counts, wherever it stands.
  merge_into(other, {.used = {{.rank = 2, .all = 3}, {.rank = 0, .all = 1}}});
  REQUIRE(other.used.size() == 2);
  CHECK(other.used[0].all == 3);
  CHECK(other.used[1].all == 3);
}

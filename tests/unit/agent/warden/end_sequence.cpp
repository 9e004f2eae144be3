#include "agent/warden/end_sequence.h"

#include <doctest/doctest.h>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;

constexpr EndSequence::Alive kAllAlive{true, true, true};
constexpr EndSequence::Alive kNoneAlive{};
const EndSequence::Time kBegin{100s};

EndSequence::Alive without(RoleName role, EndSequence::Alive alive = kAllAlive) {
  alive[static_cast<std::size_t>(role)] = false;
  return alive;
}

EndSequence running() {
  EndSequence sequence;
  sequence.start(kBegin);
  sequence.run();
  return sequence;
}

void check_asked(const std::optional<EndSequence::Request>& request, RoleName role,
                 const std::string& message) {
  REQUIRE(request.has_value());
  CHECK(request->role == role);
  CHECK(request->message == message);
}

}  // namespace

TEST_CASE("agent_warden: the end of a host asks agent, keeper, agent and broker, in this order") {
  EndSequence sequence = running();
  CHECK_FALSE(sequence.deadline().has_value());
  check_asked(sequence.stop(3s, kBegin, kAllAlive), RoleName::agent, "stop 3000");
  CHECK(sequence.deadline() == kBegin + 5s);
  CHECK(sequence.after_exit(RoleName::broker) == Phase::stopping_agent);
  CHECK(sequence.after_exit(RoleName::agent) == Phase::sweeping);
  check_asked(sequence.enter(Phase::sweeping, kBegin, kAllAlive), RoleName::keeper, "sweep");
  CHECK(sequence.after_exit(RoleName::agent) == Phase::sweeping);
  CHECK(sequence.after_exit(RoleName::keeper) == Phase::ending_agent);
  const auto no_keeper = without(RoleName::keeper);
  check_asked(sequence.enter(Phase::ending_agent, kBegin, no_keeper), RoleName::agent, "stop 0");
  CHECK(sequence.after_exit(RoleName::keeper) == Phase::ending_agent);
  CHECK(sequence.after_exit(RoleName::agent) == Phase::ending_broker);
  const auto no_agent = without(RoleName::agent, no_keeper);
  check_asked(sequence.enter(Phase::ending_broker, kBegin, no_agent), RoleName::broker, "stop 0");
  CHECK(sequence.after_exit(RoleName::broker) == Phase::ended);
  CHECK_FALSE(sequence.enter(Phase::ended, kBegin, kNoneAlive).has_value());
  CHECK_FALSE(sequence.deadline().has_value());
}

TEST_CASE("agent_warden: steps of roles that are dead are left out") {
  EndSequence sequence = running();
  CHECK_FALSE(sequence.stop(3s, kBegin, kNoneAlive).has_value());
  CHECK(sequence.phase() == Phase::ended);
  sequence = running();
  check_asked(sequence.stop(3s, kBegin, without(RoleName::agent)), RoleName::keeper, "sweep");
  CHECK(sequence.phase() == Phase::sweeping);
}

TEST_CASE("agent_warden: the end of the keeper leaves nothing to stop") {
  EndSequence sequence = running();
  CHECK(sequence.after_exit(RoleName::keeper) == Phase::ending_agent);
  sequence.stop(3s, kBegin, kAllAlive);
  CHECK(sequence.after_exit(RoleName::keeper) == Phase::ending_agent);
}

TEST_CASE("agent_warden: a role that misses its limit is killed, and given up a second later") {
  EndSequence sequence = running();
  sequence.stop(3s, kBegin, kAllAlive);
  const auto late = *sequence.deadline();
  CHECK(sequence.on_deadline(late, kAllAlive) == EndSequence::Overdue::kill);
  CHECK(sequence.waited_for() == RoleName::agent);
  CHECK(sequence.deadline() == late + 1s);
  CHECK(sequence.on_deadline(late + 1s, kAllAlive) == EndSequence::Overdue::give_up);
  CHECK_FALSE(sequence.deadline().has_value());
}

TEST_CASE("agent_warden: an agent that got no time at all is killed without a message") {
  EndSequence sequence = running();
  sequence.stop(0ms, kBegin, kAllAlive);
  CHECK(sequence.on_deadline(*sequence.deadline(), kAllAlive) ==
        EndSequence::Overdue::kill_quietly);
}

TEST_CASE("agent_warden: all of the end without a launcher takes less than two seconds") {
  EndSequence sequence = running();
  sequence.stop(EndSequence::kLostLauncherGrace, kBegin, kAllAlive);
  CHECK(*sequence.deadline() - kBegin <= 1100ms);
}

TEST_CASE("agent_warden: a host that does not come up is overdue") {
  EndSequence sequence;
  sequence.start(kBegin);
  CHECK(sequence.deadline() == kBegin + EndSequence::kStartLimit);
  CHECK(sequence.on_deadline(*sequence.deadline(), kAllAlive) == EndSequence::Overdue::start);
}

}  // namespace meshbus::warden

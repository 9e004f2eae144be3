#include "agent/warden/end_sequence.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kAgentSlack = 2s;  // beyond the grace: SIGKILL, reap, acknowledge
constexpr milliseconds kShortSlack = 300ms;
constexpr milliseconds kSweepLimit = 2s;
constexpr milliseconds kGoodbyeLimit = 500ms;
constexpr milliseconds kKillLimit = 1s;  // from SIGKILL of a role to giving it up (state D)

struct Step {
  Phase phase;
  RoleName asked;
  Phase next;
};
// The table in the header.
constexpr std::array kSteps{Step{Phase::stopping_agent, RoleName::agent, Phase::sweeping},
                            Step{Phase::sweeping, RoleName::keeper, Phase::ending_agent},
                            Step{Phase::ending_agent, RoleName::agent, Phase::ending_broker},
                            Step{Phase::ending_broker, RoleName::broker, Phase::ended}};

const Step* find_step(Phase phase) {
  for (const Step& step : kSteps) {
    if (step.phase == phase) return &step;
  }
  return nullptr;
}

}  // namespace

void EndSequence::run() {
  phase_ = Phase::running;
  deadline_.reset();
}

std::optional<EndSequence::Request> EndSequence::stop(milliseconds grace, Time now,
                                                      const Alive& alive) {
  grace_ = grace;
  return enter(Phase::stopping_agent, now, alive);
}

std::optional<EndSequence::Request> EndSequence::enter(Phase phase, Time now, const Alive& alive) {
  deadline_.reset();
  is_waiting_ = false;
  const Step* step = find_step(phase);
  while (step != nullptr && !alive[static_cast<std::size_t>(step->asked)]) {
    phase = step->next;
    step = find_step(phase);
  }
  phase_ = phase;
  if (step == nullptr) return std::nullopt;
  waited_for_ = step->asked;
  is_waiting_ = true;
  has_killed_ = false;
  if (phase == Phase::stopping_agent) {
    deadline_ = now + grace_ + (grace_ <= kLostLauncherGrace ? kShortSlack : kAgentSlack);
    return Request{step->asked, "stop " + std::to_string(grace_.count())};
  }
  deadline_ = now + (phase == Phase::sweeping ? kSweepLimit : kGoodbyeLimit);
  return Request{step->asked, phase == Phase::sweeping ? "sweep" : "stop 0"};
}

Phase EndSequence::after_exit(RoleName role) const noexcept {
  // The end of the keeper is the end of the procs: nothing is left to stop or to sweep.
  if (role == RoleName::keeper) return phase_ <= Phase::sweeping ? Phase::ending_agent : phase_;
  const Step* const step = find_step(phase_);
  return step != nullptr && step->asked == role ? step->next : phase_;
}

EndSequence::Overdue EndSequence::on_deadline(Time now, const Alive& alive) {
  deadline_.reset();
  if (phase_ == Phase::starting) return Overdue::start;
  if (!is_waiting_ || !alive[static_cast<std::size_t>(waited_for_)]) return Overdue::nothing;
  if (has_killed_) return Overdue::give_up;
  has_killed_ = true;
  deadline_ = now + kKillLimit;
  return phase_ == Phase::stopping_agent && grace_ == 0ms ? Overdue::kill_quietly : Overdue::kill;
}

}  // namespace meshbus::warden

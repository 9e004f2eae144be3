#include "agent/host/model/termination.h"

#include <algorithm>

#include "wire/ledger_generated.h"

namespace meshbus::host {

using Step = wire::StopStep;

Termination::Termination(Time now, std::chrono::milliseconds grace, bool can_ask)
    : term_due_(can_ask ? now + grace / 2 : now), kill_due_(now + grace), ask_(can_ask) {}

// A SIGKILL that was written down may not have been sent, so it is repeated. A SIGTERM is not: to
// many programs a second one means something else.
Termination::Termination(const wire::LedgerStop& stop)
    : term_due_(std::chrono::nanoseconds(stop.term_due_ns())),
      kill_due_(std::chrono::nanoseconds(stop.kill_due_ns())),
      ask_(stop.can_ask()),
      given_up_(stop.given_up()),
      step_(stop.step() == Step::kill && !stop.given_up() ? Step::term : stop.step()) {}

wire::LedgerStop Termination::to_ledger() const {
  return {std::chrono::nanoseconds(term_due_.time_since_epoch()).count(),
          std::chrono::nanoseconds(kill_due_.time_since_epoch()).count(), step_, ask_, given_up_};
}

Termination::Action Termination::next(Time now) {
  if (step_ == Step::kill) {
    if (given_up_ || now < kill_due_ + kKillLimit) return Action::none;
    given_up_ = true;
    return Action::give_up;
  }
  if (now >= kill_due_) {
    step_ = Step::kill;
    kill_due_ = now;
    return Action::kill;
  }
  if (step_ == Step::term) return Action::none;
  if (now >= term_due_) {
    step_ = Step::term;
    return Action::term;
  }
  if (step_ == Step::none && ask_) {
    step_ = Step::asked;
    return Action::ask;
  }
  return Action::none;
}

Termination::Time Termination::due() const {
  if (given_up_) return Time::max();
  if (step_ == Step::kill) return kill_due_ + kKillLimit;
  return step_ == Step::term ? kill_due_ : std::min(term_due_, kill_due_);
}

void Termination::skip_ask(Time now) {
  if (step_ <= Step::asked) term_due_ = std::min(term_due_, now);
}

void Termination::shorten(Time now, std::chrono::milliseconds grace) {
  if (step_ == Step::kill || now + grace >= kill_due_) return;
  kill_due_ = now + grace;
  term_due_ = std::min(term_due_, now + grace / 2);
}

}  // namespace meshbus::host

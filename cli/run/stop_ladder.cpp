#include "cli/run/stop_ladder.h"

namespace meshbus::cli {

bool StopLadder::begin(bool at_once, Limit grace, Time now) {
  if (step_ == Step::at_once) return false;
  step_ = at_once ? Step::at_once : Step::gracefully;
  due_ = now + (at_once ? Limit(0) : grace) + kSlack;
  if (at_once) silent_until_ = now + kSilenceLimit;
  return true;
}

bool StopLadder::pass(Time now) {
  if (!due_ || now < *due_) return false;
  due_.reset();
  return true;
}

bool StopLadder::wait_for_silent(Time now) {
  if (now >= silent_until_) return false;
  wait_on(now);
  return true;
}

void StopLadder::hurry(Time now) {
  silent_until_ = now;
  due_ = now;
}

}  // namespace meshbus::cli

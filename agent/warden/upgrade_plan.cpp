#include "agent/warden/upgrade_plan.h"

#include <utility>

namespace meshbus::warden {

const char* to_string(UpgradeOutcome outcome) noexcept {
  switch (outcome) {
    case UpgradeOutcome::none: break;
    case UpgradeOutcome::running: return "running";
    case UpgradeOutcome::done: return "done";
    case UpgradeOutcome::rolled_back: return "rolled_back";
    case UpgradeOutcome::failed: return "failed";
  }
  return "none";
}

bool UpgradePlan::begin(Time now) {
  if (is_running()) return false;
  *this = UpgradePlan();
  outcome_ = UpgradeOutcome::running;
  left_ = {RoleName::agent, RoleName::broker};
  due_ = now + kDelay;
  return true;
}

void UpgradePlan::go_on() {
  due_.reset();
  if (is_running() && !current_) next();
}

void UpgradePlan::on_started(Time now) {
  is_started_ = true;
  due_ = now + (current_ == RoleName::broker ? kBrokerLimit : kAgentLimit);
}

void UpgradePlan::on_ready() {
  if (!current_ || !is_started_) return;
  if (!is_back_) done_.push_back(*current_);
  next();
}

void UpgradePlan::on_trouble() {
  if (!current_) return;
  if (is_back_) return end(UpgradeOutcome::failed);
  is_back_ = true;
  is_started_ = false;
  due_.reset();
  left_ = std::exchange(done_, {});
}

void UpgradePlan::next() {
  is_started_ = false;
  due_.reset();
  current_.reset();
  if (left_.empty()) return end(is_back_ ? UpgradeOutcome::rolled_back : UpgradeOutcome::done);
  current_ = left_.back();
  left_.pop_back();
}

void UpgradePlan::end(UpgradeOutcome outcome) {
  outcome_ = outcome;
  is_started_ = false;
  due_.reset();
  current_.reset();
  left_.clear();
}

}  // namespace meshbus::warden

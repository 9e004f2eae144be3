#include "agent/warden/role_restarts.h"

#include <algorithm>
#include <chrono>

#include "agent/os/lifeline.h"

namespace meshbus::warden {
namespace {

/// The kernel closes the descriptors of a process before it tells of its end, on a busy machine
/// long before.
constexpr std::chrono::seconds kKeeperEnd(5);

std::string describe_loss(const Role& role, const std::string& how) {
  return "the " + role.name + " " +
         (role.said.empty() || role.ready ? how : "failed: " + role.said);
}

std::string within_window(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " time" : " times") + " within " +
         std::to_string(RestartPolicy::kWindow.count()) + " s";
}

}  // namespace

void RoleRestarts::on_broker_lost(const std::string& how, Time now) {
  using namespace std::chrono_literals;
  const std::string lost = describe_loss(role(RoleName::broker), how);
  const auto delay = broker_policy_.on_exit(now).value_or(RestartPolicy::kLongestDelay);
  const std::string when = delay == 0ms ? "" : " in " + std::to_string(delay.count()) + " ms";
  log_.note(lost + ": restarting it" + when + " (" + within_window(broker_policy_.used()) + ")");
  broker_due_ = now + delay;
  if (delay == 0ms) restart_broker(now);
}

std::optional<RoleRestarts::Time> RoleRestarts::due() const noexcept {
  if (broker_due_ && agent_due_) return std::min(*broker_due_, *agent_due_);
  return broker_due_ ? broker_due_ : agent_due_;
}

bool RoleRestarts::turn(Time now) {
  if (broker_due_ && now >= *broker_due_) restart_broker(now);
  if (!agent_due_ || now < *agent_due_) return true;
  agent_due_.reset();
  return restart_agent(agent_end_, now);
}

void RoleRestarts::restart_broker(Time now) {
  broker_due_.reset();
  if (role(RoleName::broker).alive()) return;  // an upgrade has started another one
  exporter_.count_restart(RoleName::broker);
  if (auto started = starter_.start_broker(role(RoleName::broker)); !started)
    on_broker_lost("cannot be started: " + started.error().detail(), now);
}

bool RoleRestarts::on_agent_lost(const std::string& how, Time now) {
  if (role(RoleName::agent).said != os::kKeeperLost || !role(RoleName::keeper).alive())
    return restart_agent(how, now);
  agent_due_ = now + kKeeperEnd;
  agent_end_ = how;
  return true;
}

bool RoleRestarts::restart_agent(const std::string& how, Time now) {
  const std::string lost = describe_loss(role(RoleName::agent), how);
  if (is_agent_vital_) {
    log_.note(lost + ": ending the host, as configured");
    return false;
  }
  if (!agent_policy_.on_exit(now)) {
    log_.note(lost + ", and it was restarted " + within_window(agent_policy_.used()) +
              ": ending the host");
    return false;
  }
  log_.note(lost + ": restarting it (" + std::to_string(agent_policy_.used()) + " of " +
            std::to_string(RestartPolicy::kAgentRestarts) + " within " +
            std::to_string(RestartPolicy::kWindow.count()) + " s)");
  exporter_.count_restart(RoleName::agent);
  const auto started = starter_.restart_agent(role(RoleName::agent), role(RoleName::keeper));
  if (!started) log_.say(started.error().detail() + ": ending the host");
  return started.has_value();
}

}  // namespace meshbus::warden

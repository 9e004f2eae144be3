#include "agent/warden/exporter_process.h"

#include <csignal>
#include <utility>

namespace meshbus::warden {
namespace {

/// "roles KEEPER BROKER AGENT BROKER_RESTARTS AGENT_RESTARTS": agent/metrics/role_report.h.
std::string report_of(std::span<const Role> roles,
                      const std::array<std::uint64_t, kRoleCount>& restarts) {
  std::string text = "roles";
  for (const Role& role : roles) text += role.alive() && role.ready ? " 1" : " 0";
  text += " " + std::to_string(restarts[static_cast<std::size_t>(RoleName::broker)]);
  return text + " " + std::to_string(restarts[static_cast<std::size_t>(RoleName::agent)]);
}

}  // namespace

ExporterProcess::ExporterProcess(bool is_wanted, RoleStarter& starter, const WardenLog& log)
    : is_wanted_(is_wanted), starter_(starter), log_(log), policy_({.most = std::nullopt}) {
  process_.name = "exporter";
}

void ExporterProcess::start(Time now) {
  if (is_wanted_) due_ = now;
}

void ExporterProcess::turn(Time now, std::span<const Role> roles) {
  if (due_ && now >= *due_) {
    due_.reset();
    told_.clear();
    if (const auto started = starter_.start_exporter(process_); !started) {
      log_.say(started.error().detail());
      due_ = now + RestartPolicy::kLongestDelay;
    }
  }
  if (!process_.alive()) return;
  std::string report = report_of(roles, restarts_);
  if (report == told_) return;
  process_.lifeline.send(report);
  told_ = std::move(report);
}

bool ExporterProcess::on_exit(pid_t pid, const std::string& how, Time now) {
  if (pid != process_.pid) return false;
  process_.pid = -1;
  process_.lifeline.close();
  if (std::exchange(is_replaced_, false)) {
    due_ = now;
    return true;
  }
  const auto delay = policy_.on_exit(now).value_or(RestartPolicy::kLongestDelay);
  due_ = now + delay;
  log_.say("the process that serves the metrics " + how + ": restarting it in " +
           std::to_string(delay.count()) + " ms");
  return true;
}

void ExporterProcess::replace() {
  if (!process_.alive()) return;
  is_replaced_ = true;
  ::kill(process_.pid, SIGKILL);
}

void ExporterProcess::kill() {
  if (process_.alive()) ::kill(process_.pid, SIGKILL);
  process_.pid = -1;
  process_.lifeline.close();
}

}  // namespace meshbus::warden

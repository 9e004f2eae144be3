#include "agent/warden/upgrader.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

#include "common/base/quantity.h"
#include "common/base/release.h"

namespace meshbus::warden {
namespace {

/// The whole text must fit into one packet of a lifeline.
constexpr std::size_t kLongestDetail = 1024;

std::int64_t real_time_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, kLongestDetail);
}

std::string role_line(const std::string& name, pid_t pid, const std::string& release,
                      const std::string& program) {
  return name + " " + std::to_string(pid) + " " + (release.empty() ? "-" : release) + " " +
         program + "\n";
}

}  // namespace

std::string Upgrader::begin(std::string_view order, Time now) {
  const auto end = std::min(order.find('\n'), order.size());
  const std::filesystem::path folder(order.substr(0, end));
  for (const RoleName name : {RoleName::broker, RoleName::agent}) {
    if (!role(name).alive() || !role(name).ready) return "its " + role(name).name + " is not up";
  }
  const auto exporter = folder / "meshbus-exporter";
  if (exporter_.is_wanted() && ::access(exporter.c_str(), X_OK) != 0)
    return "it serves metrics, and " + folder.string() + " has no meshbus-exporter";
  if (!plan_.begin(now)) return "another upgrade of it is under way";
  record_ = {.number = record_.number + 1,
             .requester = std::string(order.substr(std::min(end + 1, order.size()))),
             .before = starter_.programs(),
             .after = folder,
             .detail = "broker and agent are being replaced",
             .started_ns = real_time_ns()};
  log_.note("upgrade " + std::to_string(record_.number) +
            ": replacing broker and agent by those in " + folder.string() +
            (record_.requester.empty() ? "" : ", asked by " + record_.requester));
  return "ok " + std::to_string(record_.number);
}

std::optional<RoleName> Upgrader::turn(Time now) {
  if (!due() || now < *due()) return std::nullopt;
  const auto current = plan_.current();
  if (!current) {
    plan_.go_on();
    const auto first = plan_.current();
    if (!first || replace(now)) return std::nullopt;
    return first;
  }
  // Its end is heard by SIGCHLD.
  plan_.on_started(now);
  if (!std::exchange(is_late_, true)) ::kill(role(*current).pid, SIGKILL);
  return std::nullopt;
}

std::optional<RoleName> Upgrader::on_ready(RoleName name, Time now) {
  tell();
  if (plan_.current() != name || !plan_.is_started() || is_late_) return std::nullopt;
  plan_.on_ready();
  if (!plan_.is_running()) {
    finish();
    return std::nullopt;
  }
  const auto next = plan_.current();
  if (replace(now)) return std::nullopt;
  return next;
}

bool Upgrader::on_exit(RoleName name, const std::string& how, Time now) {
  if (plan_.current() != name) return false;
  if (plan_.is_started()) {
    const Role& ended = role(name);
    const bool has_said = !ended.said.empty() && !ended.ready;
    const auto limit =
        name == RoleName::broker ? UpgradePlan::kBrokerLimit : UpgradePlan::kAgentLimit;
    on_trouble(is_late_   ? "was not ready within " + duration_to_text(limit)
               : has_said ? "failed: " + ended.said
                          : how + " before it was ready");
  }
  return plan_.is_running() && start(now);
}

bool Upgrader::replace(Time now) {
  Role& old = role(*plan_.current());
  if (!old.alive()) return start(now);
  // As after a crash, which loses nothing: it has no time to be different in.
  ::kill(old.pid, SIGKILL);
  return true;
}

bool Upgrader::start(Time now) {
  while (plan_.is_running()) {
    const RoleName name = *plan_.current();
    is_late_ = false;
    starter_.set_programs(plan_.is_back() ? record_.before : record_.after);
    const auto started = name == RoleName::broker
                             ? starter_.start_broker(role(name))
                             : starter_.restart_agent(role(name), role(RoleName::keeper));
    if (started) {
      plan_.on_started(now);
      return true;
    }
    on_trouble("cannot be started: " + started.error().detail());
  }
  return false;
}

void Upgrader::on_trouble(const std::string& why) {
  const std::string what = "the " + role(*plan_.current()).name + " in " +
                           (plan_.is_back() ? record_.before : record_.after).string() + " " + why;
  record_.detail = (plan_.is_back() ? record_.detail + "; " : "") + one_line(what);
  plan_.on_trouble();
  if (!plan_.is_running()) return finish();
  log_.note("upgrade " + std::to_string(record_.number) + ": " + what +
            ": starting what was there before, in " + record_.before.string());
}

void Upgrader::finish() {
  record_.ended_ns = real_time_ns();
  const auto outcome = plan_.outcome();
  const std::string number = "upgrade " + std::to_string(record_.number) + ": ";
  if (outcome == UpgradeOutcome::done) {
    record_.detail = "broker and agent are replaced";
    exporter_.replace();
    log_.note(number + "done; broker and agent are those in " + record_.after.string());
  } else if (outcome == UpgradeOutcome::rolled_back) {
    log_.note(number + "not done; broker and agent are those in " + record_.before.string() +
              " as before");
  } else {
    log_.note(number + "failed: " + record_.detail);
  }
  tell();
}

void Upgrader::tell() const {
  const Role& agent = roles_[static_cast<std::size_t>(RoleName::agent)];
  if (!agent.alive()) return;
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string text =
      "roles " + role_line("warden", ::getpid(), std::string(this_release()), own.string());
  for (const Role& one : roles_) {
    if (one.alive()) text += role_line(one.name, one.pid, one.release, one.program);
  }
  agent.lifeline.send(text);
  if (record_.number == 0) return;
  agent.lifeline.send("upgraded " + std::to_string(record_.number) + " " +
                      to_string(plan_.outcome()) + " " + std::to_string(record_.started_ns) + " " +
                      std::to_string(record_.ended_ns) + "\n" + record_.after.string() + "\n" +
                      record_.requester + "\n" + record_.detail);
}

}  // namespace meshbus::warden

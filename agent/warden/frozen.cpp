// Whether the roles of a host are alive: asked by their lifelines, and looked at before anything is done to them.
#include "agent/warden/frozen.h"

#include <algorithm>
#include <csignal>
#include <fstream>

#include "agent/keeper/process_table.h"
#include "agent/warden/host_process.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;

/// How long a process has waited for a CPU in all, from /proc/PID/schedstat.
std::chrono::nanoseconds run_delay(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  long long ran = 0;
  long long waited = 0;
  file >> ran >> waited;
  return std::chrono::nanoseconds(waited);
}

}  // namespace

Silence judge_silence(char state, std::chrono::nanoseconds silence, std::chrono::nanoseconds waited) {
  if (state == 0 || state == 'Z' || state == 'X') return Silence::ended;
  if (state == 'D') return Silence::waits_for_device;
  if (waited > silence / 2) return Silence::waits_for_cpu;
  return state == 'T' || state == 't' ? Silence::stopped : Silence::stuck;
}

bool was_away(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point due, std::chrono::nanoseconds interval) {
  return now - due > std::max<std::chrono::nanoseconds>(interval, 500ms);
}

void HostProcess::look_for_frozen() {
  const auto now = Clock::now();
  const auto interval = options_.frozen_limit / 3;
  const bool fresh_grace = was_away(now, *look_due_, interval);
  look_due_ = now + interval;
  for (Role* role : {&keeper_, &broker_, &agent_}) {
    if (!role->alive()) continue;
    if (fresh_grace || !role->lifeline) role->heard = now;
    if (now - role->heard >= options_.frozen_limit) fence_if_frozen(*role);
    if (phase_ != Phase::running) return;
    role->lifeline.send("ping");
  }
}

void HostProcess::fence_if_frozen(Role& role) {
  const auto entry = keeper::read_process(role.pid);
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - role.heard);
  const std::string who =
      "the " + role.name + " (pid " + std::to_string(role.pid) + ") gave no sign of life for " + std::to_string(silence.count()) + " ms";
  const auto waited = run_delay(role.pid);
  const auto found = judge_silence(entry ? entry->state : '\0', silence, waited - role.run_delay);
  role.run_delay = waited;
  if (found == Silence::ended) return;
  if (found == Silence::waits_for_device || found == Silence::waits_for_cpu) {
    say(who + ": it waits for " + (found == Silence::waits_for_device ? "a device" : "a CPU") + " and is left alone");
    role.heard = Clock::now();
    return;
  }
  const std::string how = found == Silence::stopped ? "stopped" : "stuck";
  note(who + ": it is frozen (" + how + "); killing it");
  // In front of its end: for the certificates of what dies with it.
  if (&role == &keeper_) agent_.lifeline.send("frozen " + who + ": it was frozen (" + how + ") and was killed");
  ::kill(role.pid, SIGKILL);
  role.heard = Clock::now();
}

}  // namespace meshbus::warden

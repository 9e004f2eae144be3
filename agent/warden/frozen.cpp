// Whether the roles of a host are alive: asked by their lifelines, and looked at before anything is done to them.
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

void HostProcess::look_for_frozen() {
  const auto now = Clock::now();
  const auto interval = options_.frozen_limit / 3;
  // When it is us who were away (stopped, starved), answers may wait behind this look: everybody gets a fresh grace.
  const bool was_away = now - *look_due_ > std::max<Clock::duration>(interval, 500ms);
  look_due_ = now + interval;
  for (Role* role : {&keeper_, &broker_, &agent_}) {
    if (!role->alive()) continue;
    if (was_away || !role->lifeline) role->heard = now;
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
  const bool is_starved = waited - role.run_delay > silence / 2;
  role.run_delay = waited;
  // One that waits for a disk, or for a CPU, is slow and not dead: killing it would not help.
  if (!entry || entry->state == 'Z') return;
  if (entry->state == 'D' || is_starved) {
    say(who + ": it waits for " + (entry->state == 'D' ? "a device" : "a CPU") + " and is left alone");
    role.heard = Clock::now();
    return;
  }
  const bool is_stopped = entry->state == 'T' || entry->state == 't';
  const std::string how = is_stopped ? "stopped" : "stuck";
  note(who + ": it is frozen (" + how + "); killing it");
  // In front of its end: for the certificates of what dies with it.
  if (&role == &keeper_) agent_.lifeline.send("frozen " + who + ": it was frozen (" + how + ") and was killed");
  ::kill(role.pid, SIGKILL);
  role.heard = Clock::now();
}

}  // namespace meshbus::warden

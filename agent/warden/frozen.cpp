// Whether the roles of a host are alive: asked by their lifelines, and looked at before anything is done to them.
#include "agent/warden/frozen.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>

#include "agent/os/process_table.h"
#include "agent/warden/host_process.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// `directory`: /proc/PID/task/TID.
std::optional<ThreadLook> look_at_thread(const fs::path& directory) {
  std::ifstream stat(directory / "stat");
  const auto entry = os::parse_stat(std::string(std::istreambuf_iterator<char>(stat), {}));
  if (!entry) return std::nullopt;
  ThreadLook look{.tid = entry->pid, .state = entry->state};
  std::ifstream times(directory / "schedstat");
  long long ran = 0;
  long long waited = 0;
  times >> ran >> waited;
  // A kernel that does not count these has no such file, or zeros in it.
  look.ran = ran > 0 ? std::chrono::nanoseconds(ran) : std::chrono::nanoseconds(1s) * entry->cpu_ticks / ::sysconf(_SC_CLK_TCK);
  look.waited = std::chrono::nanoseconds(waited);
  return look;
}

}  // namespace

std::vector<ThreadLook> look_at_threads(pid_t pid) {
  std::vector<ThreadLook> looks;
  std::error_code error;
  fs::directory_iterator next("/proc/" + std::to_string(pid) + "/task", error);
  for (; !error && next != fs::directory_iterator(); next.increment(error)) {
    if (const auto look = look_at_thread(next->path())) looks.push_back(*look);
  }
  const auto main_thread = std::find_if(looks.begin(), looks.end(), [pid](const ThreadLook& look) { return look.tid == pid; });
  if (main_thread == looks.end()) return {};
  std::rotate(looks.begin(), main_thread, main_thread + 1);
  return looks;
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
    if (fresh_grace || !role->lifeline) role->silence.start_anew(now);
    act_on(role->silence.on_look(now, look_at_threads(role->pid), options_.frozen_limit), *role);
    if (phase_ != Phase::running) return;
    role->lifeline.send("ping");
  }
}

void HostProcess::act_on(Silence silence, Role& role) {
  if (silence == Silence::brief || silence == Silence::ended) return;
  const auto length = std::chrono::duration_cast<std::chrono::milliseconds>(role.silence.length(Clock::now()));
  const std::string who =
      "the " + role.name + " (pid " + std::to_string(role.pid) + ") gave no sign of life for " + std::to_string(length.count()) + " ms";
  if (silence == Silence::waits_for_device || silence == Silence::waits_for_cpu) {
    say(who + ": it waits for " + (silence == Silence::waits_for_device ? "a device" : "a CPU") + " and is left alone");
    return;
  }
  const std::string how = silence == Silence::stopped ? "stopped" : "stuck";
  note(who + ": it is frozen (" + how + "); killing it");
  // In front of its end: for the exit reports of what dies with it.
  if (&role == &keeper_) agent_.lifeline.send("frozen " + who + ": it was frozen (" + how + ") and was killed");
  ::kill(role.pid, SIGKILL);
  role.silence.start_anew(Clock::now());
}

}  // namespace meshbus::warden

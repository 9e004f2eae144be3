#include "agent/warden/frozen.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "agent/os/process_table.h"
#include "common/base/file_text.h"

namespace meshbus::warden {

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// `directory`: /proc/PID/task/TID.
std::optional<ThreadLook> look_at_thread(const fs::path& directory) {
  const auto entry = os::parse_stat(file_text(directory / "stat"));
  if (!entry) return std::nullopt;
  ThreadLook look{.tid = entry->pid, .state = entry->state};
  std::ifstream times(directory / "schedstat");
  long long ran = 0;
  long long waited = 0;
  times >> ran >> waited;
  // A kernel that does not count these has no such file, or zeros in it.
  look.ran = ran > 0 ? std::chrono::nanoseconds(ran)
                     : std::chrono::nanoseconds(1s) * entry->cpu_ticks / ::sysconf(_SC_CLK_TCK);
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
  const auto main_thread = std::find_if(looks.begin(), looks.end(),
                                        [pid](const ThreadLook& look) { return look.tid == pid; });
  if (main_thread == looks.end()) return {};
  std::rotate(looks.begin(), main_thread, main_thread + 1);
  return looks;
}

bool was_away(std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point due,
              std::chrono::nanoseconds interval) {
  return now - due > std::max<std::chrono::nanoseconds>(interval, 500ms);
}

}  // namespace meshbus::warden

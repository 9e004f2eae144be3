#include "agent/warden/warden_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

#include "agent/warden/ready_report.h"

namespace meshbus::warden {

void WardenLog::say(const std::string& line) const {
  write_line(STDERR_FILENO, "meshbus host: " + line + "\n");
}

// The agent writes to the same file. A single appending write is either there or not. If the agent
// has just set the file aside, the event is in the older file, which is as good.
void WardenLog::note(const std::string& line) const {
  say(line);
  if (event_log_.empty()) return;
  const UniqueFd file(::open((event_log_ + ".jsonl").c_str(),
                             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  const std::int64_t time_ns = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  if (file) write_line(file.get(), role_event_line(time_ns, line));
}

void WardenLog::report(const std::string& line) {
  if (!ready_fd_) return;
  write_line(ready_fd_.get(), line);
  ready_fd_.reset();
}

}  // namespace meshbus::warden

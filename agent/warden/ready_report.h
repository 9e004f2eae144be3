#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace meshbus::warden {

/// What the warden tells its starter once everything is up.
struct ReadyReport {
  std::string host;                ///< The address that the broker serves.
  std::string containment;         ///< "cgroup v2", "pid namespace" or "sweep".
  std::string containment_reason;  ///< Why `automatic` chose no better one; may
                                   ///< be empty.
  std::uint64_t pids_limit = 0;    ///< 0: none.
  std::string pids_reason;         ///< Why there is none although there should be; may be empty.
  std::string metrics = {};        ///< Where the metrics are served; empty: nowhere.
  std::string run_dir;
  pid_t pid = 0;
  pid_t broker_pid = 0;
  pid_t agent_pid = 0;
  pid_t keeper_pid = 0;
};

/// {"host":"unix:/…","pid":1,…} and a newline.
std::string to_json_line(const ReadyReport& report);
/// {"error":"…"} and a newline.
std::string error_json_line(std::string_view error);

/// One entry of the event log, as agent/host/records reads it:
/// {"time":"…","time_ns":1,"kind":"role_ended","text":"…"} and a newline.
std::string role_event_line(std::int64_t time_ns, std::string_view text);

/// Writes all of it; an unwilling reader is its own problem.
void write_line(int fd, std::string_view line);

}  // namespace meshbus::warden

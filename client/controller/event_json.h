#pragma once

#include <chrono>
#include <string>

#include "client/controller/watch_event.h"

namespace meshbus {

/// An event as one line of JSON, without its end: what meshbus-controller prints.
///
///     {"time":"2026-01-02T03:04:05.678Z","event":"state","mesh":"trainers-13Se1Maqzryj","host":"unix:/run/m/broker","rank":3,"point":"host=1/2,gpu=1/2",
///      "state":"killed","pid":4711,"exit_code":null,"signal":9,"reason":"killed by SIGKILL","stderr_tail":["last words"]}
///     {"time":"…","event":"host_unreachable","host":"unix:/run/m/broker","reason":"timeout: no answer within 3000 ms"}
///     {"time":"…","event":"host_back","host":"unix:/run/m/broker"}
///     {"time":"…","event":"query_failed","mesh":"trainers-13Se1Maqzryj","host":"unix:/run/m/broker","reason":"queue_full: …"}
///     {"time":"…","event":"ended","mesh":"trainers-13Se1Maqzryj","overall":"Failed"}
///     {"time":"…","event":"late","ms":21500}
std::string to_json_line(const WatchEvent& event, std::chrono::system_clock::time_point now);

/// The line that stands for lines that nobody read in time.
std::string lost_json_line(std::uint64_t lines, std::chrono::system_clock::time_point now);

}  // namespace meshbus

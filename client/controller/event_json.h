#pragma once

#include <chrono>
#include <string>

#include "client/controller/watch_event.h"

namespace meshbus {

/// An event as one line of JSON, without its end: what meshbus-controller prints. A rank that ended
/// (shown on several lines here):
///
///     {"time":"2026-01-02T03:04:05.678Z","event":"state","mesh":"trainers-13Se1Maqzryj",
///      "host":"unix:/run/m/broker","rank":3,"point":"host=1/2,gpu=1/2","state":"killed",
///      "pid":4711,"exit_code":null,"signal":15,"reason":"killed by SIGTERM",
///      "stderr_tail":["last words"],
///      "restarts":0,"cause":"lease_lapsed","consequence":true,"because":null,
///      "stop":{"step":"term","by":"host","reason":"its lease has lapsed"}}
///
/// `stop` is null when nobody asked for the end, `cause` while the rank lives. The other events:
///
///     {"time":"…","event":"host_unreachable","host":"unix:/a","reason":"timeout: no answer"}
///     {"time":"…","event":"host_back","host":"unix:/a"}
///     {"time":"…","event":"query_failed","mesh":"m-13Se1Maqzryj","host":"unix:/a","reason":"…"}
///     {"time":"…","event":"ended","mesh":"m-13Se1Maqzryj","overall":"Failed"}
///     {"time":"…","event":"late","ms":21500}
std::string to_json_line(const WatchEvent& event, std::chrono::system_clock::time_point now);

/// The line in place of lines that were not read in time.
std::string lost_json_line(std::uint64_t lines, std::chrono::system_clock::time_point now);

}  // namespace meshbus

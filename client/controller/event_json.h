#pragma once

#include <chrono>
#include <string>

#include "client/controller/pair_seat.h"
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
///     {"time":"…","event":"restarting","mesh":"m-13Se1Maqzryj","host":"unix:/a","ranks":"3",
///      "reason":"…"}
std::string to_json_line(const WatchEvent& event, std::chrono::system_clock::time_point now);

/// What a controller of a pair prints when it begins to act, or stands by:
///
///     {"time":"…","event":"acts","pair":"site","term":2,"reason":"3 of 3 hosts have granted …"}
///     {"time":"…","event":"stands_by","pair":"site","term":1,"reason":"term 1 is over: …"}
std::string to_json_line(const PairNotice& notice, std::chrono::system_clock::time_point now);

/// The line in place of lines that were not read in time.
std::string lost_json_line(std::uint64_t lines, std::chrono::system_clock::time_point now);

}  // namespace meshbus

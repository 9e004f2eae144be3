#include "client/controller/event_json.h"

#include <array>
#include <cstdio>
#include <ctime>

#include <nlohmann/json.hpp>

#include "client/controller/actors_name.h"
#include "client/controller/supervision_event.h"
#include "client/src/base/wire_reports.h"

namespace meshbus {
namespace {

using Json = nlohmann::ordered_json;

std::string millis_text(std::chrono::system_clock::time_point time) {
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = millis / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(millis % 1000));
  return std::string(text.data(), length) + fraction.data();
}

Json lines_of(std::string_view text) {
  Json lines = Json::array();
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string dump(const Json& json) {
  // What procs wrote may be anything: bytes that are no UTF-8 are replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view kind_text(WatchEvent::Kind kind) {
  switch (kind) {
    case WatchEvent::Kind::state: return "state";
    case WatchEvent::Kind::host_unreachable: return "host_unreachable";
    case WatchEvent::Kind::host_back: return "host_back";
    case WatchEvent::Kind::query_failed: return "query_failed";
    case WatchEvent::Kind::ended: return "ended";
    case WatchEvent::Kind::trouble: return "trouble";
    case WatchEvent::Kind::late: return "late";
    case WatchEvent::Kind::restarting: return "restarting";
    case WatchEvent::Kind::given_up: return "given_up";
    case WatchEvent::Kind::resized: return "resized";
  }
  return "state";
}

void add_mesh(Json& json, const std::string& mesh) {
  const auto comma = mesh.find(',');
  json["mesh"] = mesh.substr(0, comma);
  if (comma != std::string::npos) json["actor"] = mesh.substr(comma + 1);
}

/// How an end came about, in the words of `run --json`.
void add_origin(Json& json, const RankReport& rank) {
  json["restarts"] = rank.restarts;
  const bool is_over = rank.is_terminal();
  json["cause"] = is_over ? Json(std::string(to_string(rank.cause))) : Json(nullptr);
  json["consequence"] = rank.consequence;
  json["because"] = rank.because ? Json(*rank.because) : Json(nullptr);
  json["stop"] = nullptr;
  if (rank.step == StopStep::none) return;
  json["stop"] = {{"step", std::string(to_string(rank.step))},
                  {"by", rank.stopped_by},
                  {"reason", rank.stop_reason}};
}

void add_actor_state(Json& json, const WatchEvent& event) {
  RankReport report;
  copy_state(event.rank, report);
  json["state"] = state_of_actor(event.rank);
  json["pid"] = report.pid != 0 ? Json(report.pid) : Json(nullptr);
  const bool is_over = report.is_terminal();
  json["proc_ended"] = is_over && event.actor == nullptr;
  const auto* const actor = event.actor.get();
  json["message"] =
      actor != nullptr && !actor->message.empty() ? Json(actor->message) : Json(nullptr);
  json["causes"] = actor != nullptr ? Json(actor->causes) : Json::array();
  json["exit_code"] =
      is_over && actor == nullptr && report.signal == 0 ? Json(report.exit_code) : Json(nullptr);
  json["signal"] = report.signal != 0 ? Json(report.signal) : Json(nullptr);
  json["reason"] = actor != nullptr               ? actor->reason
                   : event.exit_report != nullptr ? event.exit_report->reason
                                                  : std::string();
  const auto* const tail = event.exit_report != nullptr ? &event.exit_report->stderr_tail : nullptr;
  json["stderr_tail"] =
      tail != nullptr ? lines_of(std::string(tail->begin(), tail->end())) : Json::array();
}

}  // namespace

std::string to_json_line(const WatchEvent& event, std::chrono::system_clock::time_point now) {
  Json json;
  json["time"] = millis_text(now);
  json["event"] = kind_text(event.kind);
  if (event.kind == WatchEvent::Kind::late) {
    json["ms"] = event.lateness.count();
    return dump(json);
  }
  if (event.kind == WatchEvent::Kind::ended) {
    add_mesh(json, event.mesh);
    json["overall"] = Status(event.overall).to_string();
    return dump(json);
  }
  if (event.kind == WatchEvent::Kind::trouble) {
    RankReport report;
    copy_state(event.rank, report);
    copy_trouble(event.trouble, report, event.stuck.get());
    json["mesh"] = event.mesh;
    json["host"] = event.host.to_string();
    json["rank"] = event.rank.rank();
    json["point"] = event.point();
    json["trouble"] = std::string(to_string(report.trouble));
    json["reason"] = report.trouble_reason;
    return dump(json);
  }
  if (event.kind != WatchEvent::Kind::state) {
    if (!event.mesh.empty()) add_mesh(json, event.mesh);
    json["host"] = event.host.to_string();
    if (!event.ranks.empty()) json["ranks"] = to_string(event.ranks);
    if (!event.problem.empty()) json["reason"] = event.problem;
    return dump(json);
  }
  if (ActorsName::is_meant(event.mesh)) {
    add_mesh(json, event.mesh);
    json["host"] = event.host.to_string();
    json["rank"] = event.rank.rank();
    json["point"] = event.point();
    add_actor_state(json, event);
    return dump(json);
  }
  const auto report = to_rank_report(event);
  json["mesh"] = event.mesh;
  json["host"] = event.host.to_string();
  json["rank"] = event.rank.rank();
  json["point"] = event.point();
  json["state"] = std::string(to_string(report.state));
  json["pid"] = report.pid != 0 ? Json(report.pid) : Json(nullptr);
  json["exit_code"] = report.state == ProcState::stopped && report.signal == 0
                          ? Json(report.exit_code)
                          : Json(nullptr);
  json["signal"] = report.signal != 0 ? Json(report.signal) : Json(nullptr);
  json["reason"] = report.words();
  json["stderr_tail"] = lines_of(report.stderr_tail);
  add_origin(json, report);
  return dump(json);
}

std::string to_json_line(const PairNotice& notice, std::chrono::system_clock::time_point now) {
  return dump({{"time", millis_text(now)},
               {"event", notice.is_acting ? "acts" : "stands_by"},
               {"pair", notice.pair},
               {"term", notice.term},
               {"reason", notice.why}});
}

std::string lost_json_line(std::uint64_t lines, std::chrono::system_clock::time_point now) {
  Json json;
  json["time"] = millis_text(now);
  json["event"] = "lines_lost";
  json["count"] = lines;
  return dump(json);
}

}  // namespace meshbus

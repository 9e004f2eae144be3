#include "agent/host/records/event_text.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using Json = nlohmann::ordered_json;

std::string rfc3339(std::int64_t time_ns) {
  const std::time_t seconds = time_ns / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ",
                static_cast<int>(time_ns % 1'000'000'000 / 1000));
  return std::string(text.data(), length) + fraction.data();
}

template <typename T>
void put(Json& json, const char* key, const T& value) {
  if (value != T{}) json[key] = value;
}

/// Whole lines, as far as they fit.
std::string tail_of(const std::vector<std::uint8_t>& bytes) {
  std::string text(bytes.begin(), bytes.end());
  if (text.size() <= kMostStderr) return text;
  const auto begin = text.size() - kMostStderr;
  const auto line = text.find('\n', begin - 1);
  return text.substr(line == std::string::npos || line + 1 == text.size() ? begin : line + 1);
}

void put_end(Json& json, const wire::RankState& state, const wire::ExitReportT& exit_report) {
  json["rank"] = exit_report.rank;
  put(json, "restarts", state.restarts());
  put(json, "state", std::string(wire::EnumNameProcState(state.state())));
  put(json, "cause", std::string(wire::EnumNameCause(exit_report.cause)));
  json["reason"] = exit_report.reason;
  if (state.state() != wire::ProcState::failed && state.signal() == 0)
    json["exit_code"] = state.exit_code();
  put(json, "signal", static_cast<unsigned>(state.signal()));
  put(json, "core_dumped", state.core_dumped());
  if (state.step() != wire::StopStep::none) json["step"] = wire::EnumNameStopStep(state.step());
  put(json, "stopped_by", exit_report.stopped_by);
  put(json, "stop_reason", exit_report.stop_reason);
  put(json, "consequence", exit_report.consequence);
  if (exit_report.because) json["because"] = *exit_report.because;
  if (exit_report.code != wire::ErrorCode::none)
    json["code"] = wire::EnumNameErrorCode(exit_report.code);
  put(json, "os_error", exit_report.os_error);
  put(json, "pid", state.pid());
  put(json, "started_ns", state.started_ns());
  put(json, "ended_ns", state.ended_ns());
  put(json, "max_rss_bytes", exit_report.max_rss_bytes);
  put(json, "user_us", exit_report.user_us);
  put(json, "system_us", exit_report.system_us);
  put(json, "incarnation", state.incarnation());
  put(json, "generation", state.generation());
  put(json, "stderr", tail_of(exit_report.stderr_tail));
}

/// A whole number. Throws when it is something else: nlohmann converts whatever number it finds,
/// and what does not fit into T is undefined.
template <typename T>
T whole(const Json& json, const char* what) {
  const bool fits = json.is_number_unsigned()  ? std::in_range<T>(json.get<std::uint64_t>())
                    : json.is_number_integer() ? std::in_range<T>(json.get<std::int64_t>())
                                               : false;
  if (!fits)
    throw std::invalid_argument(std::string(what) + " is " + json.dump() +
                                ", no whole number, or too large");
  return json.get<T>();
}

/// The same of a field, `standard` when it is not there.
template <typename T>
T whole(const Json& json, const char* what, T standard) {
  const auto found = json.find(what);
  if (found == json.end()) return standard;
  return whole<T>(*found, what);
}

/// The value of that word; the first one, `none`, when there is no such word.
template <typename Enum, std::size_t count>
Enum find_word(const Enum (&values)[count], const char* (*name)(Enum), const std::string& word) {
  for (const Enum value : values) {
    if (word == name(value)) return value;
  }
  return Enum{};
}

void take_end(const Json& json, wire::EventT& event) {
  event.exit_report = std::make_unique<wire::ExitReportT>();
  auto& exit_report = *event.exit_report;
  exit_report.rank = whole(json, "rank", std::uint64_t{0});
  exit_report.reason = json.value("reason", std::string());
  exit_report.cause =
      find_word(wire::EnumValuesCause(), wire::EnumNameCause, json.value("cause", std::string()));
  exit_report.code = find_word(wire::EnumValuesErrorCode(), wire::EnumNameErrorCode,
                               json.value("code", std::string()));
  exit_report.os_error = whole(json, "os_error", 0);
  exit_report.stopped_by = json.value("stopped_by", std::string());
  exit_report.stop_reason = json.value("stop_reason", std::string());
  exit_report.consequence = json.value("consequence", false);
  if (json.contains("because"))
    exit_report.because = whole<std::uint64_t>(json.at("because"), "because");
  exit_report.max_rss_bytes = whole(json, "max_rss_bytes", std::uint64_t{0});
  exit_report.user_us = whole(json, "user_us", std::uint64_t{0});
  exit_report.system_us = whole(json, "system_us", std::uint64_t{0});
  const auto tail = json.value("stderr", std::string());
  exit_report.stderr_tail.assign(tail.begin(), tail.end());
  event.state = std::make_unique<wire::RankState>(
      exit_report.rank, whole(json, "generation", std::uint64_t{0}),
      whole(json, "incarnation", std::uint64_t{0}), whole(json, "started_ns", std::int64_t{0}),
      whole(json, "ended_ns", std::int64_t{0}), whole(json, "pid", std::uint32_t{0}),
      whole(json, "exit_code", 0),
      find_word(wire::EnumValuesProcState(), wire::EnumNameProcState,
                json.value("state", std::string())),
      whole(json, "signal", std::uint8_t{0}), json.value("core_dumped", false),
      find_word(wire::EnumValuesStopStep(), wire::EnumNameStopStep,
                json.value("step", std::string())),
      whole(json, "restarts", std::uint32_t{0}));
}

wire::EventT take(const Json& json) {
  wire::EventT event;
  event.time_ns = whole<std::int64_t>(json.at("time_ns"), "time_ns");
  event.kind = find_word(wire::EnumValuesEventKind(), wire::EnumNameEventKind,
                         json.at("kind").get<std::string>());
  event.mesh = json.value("mesh", std::string());
  event.by = json.value("by", std::string());
  event.text = json.value("text", std::string());
  event.point = json.value("point", std::string());
  if (const auto ranks = json.find("ranks"); ranks != json.end()) {
    for (const auto& pair : *ranks)
      event.ranks.emplace_back(whole<std::uint64_t>(pair.at(0), "ranks"),
                               whole<std::uint64_t>(pair.at(1), "ranks"));
  }
  if (event.kind == wire::EventKind::proc_ended) {
    take_end(json, event);
  } else if (json.contains("because")) {
    event.because = whole<std::uint64_t>(json.at("because"), "because");
  }
  return event;
}

}  // namespace

std::string to_line(const wire::EventT& event) {
  constexpr std::size_t keys =
      32;  // more than there are: a thousand ends in a second come through here
  Json json = Json::object();
  json.get_ref<Json::object_t&>().reserve(keys);
  json["time"] = rfc3339(event.time_ns);
  json["time_ns"] = event.time_ns;
  json["kind"] = wire::EnumNameEventKind(event.kind);
  put(json, "mesh", event.mesh);
  put(json, "point", event.point);
  for (const auto& block : event.ranks) json["ranks"].push_back({block.begin(), block.end()});
  put(json, "by", event.by);
  put(json, "text", event.text);
  if (event.because) json["because"] = *event.because;
  if (event.state && event.exit_report) put_end(json, *event.state, *event.exit_report);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<wire::EventT> parse_event(std::string_view line) {
  try {
    return take(Json::parse(line));
  } catch (const std::exception& error) {
    return fail(ErrorCode::parse_error, std::string("event: ") + error.what());
  }
}

bool may_concern(std::string_view line, std::string_view mesh) {
  // Inside of a text the quotes are escaped, so this is the key.
  constexpr std::string_view key = "\"mesh\":\"";
  const auto at = line.find(key);
  if (at == std::string_view::npos || mesh.empty()) return true;
  const auto rest = line.substr(at + key.size());
  if (!rest.starts_with(mesh)) return false;
  const auto end = rest.substr(mesh.size());
  return end.starts_with('"') ||
         (end.starts_with('-') && end.find_first_of("-\"", 1) == end.find('"'));
}

}  // namespace meshbus::host

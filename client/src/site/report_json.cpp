#include "client/src/site/report_json.h"

#include <nlohmann/json.hpp>

#include <array>
#include <ctime>
#include <optional>

namespace meshbus::reports {
namespace {

using Json = nlohmann::ordered_json;

Json time_json(const std::optional<std::chrono::system_clock::time_point>& time) {
  return time ? Json(time_text(*time)) : Json(nullptr);
}

/// What the rank used: in its whole life when it has ended, else as its host saw it last.
Json usage_json(const RankReport& rank) {
  const auto seconds = [](std::chrono::microseconds time) {
    return static_cast<double>(time.count()) / 1e6;
  };
  const bool is_exact = rank.is_terminal() && rank.max_rss_bytes != 0;
  if (!is_exact && !rank.usage) return nullptr;
  const ProcUsage seen = rank.usage.value_or(ProcUsage());
  const auto if_seen = [&](Json value) { return rank.usage ? std::move(value) : Json(nullptr); };
  return {{"user_s", seconds(is_exact ? rank.user_time : seen.user_time)},
          {"system_s", seconds(is_exact ? rank.system_time : seen.system_time)},
          {"peak_rss", is_exact ? rank.max_rss_bytes : seen.peak_rss_bytes},
          {"rss", if_seen(seen.rss_bytes)},
          {"threads", if_seen(seen.threads)},
          {"descriptors", seen.descriptors != 0 ? Json(seen.descriptors) : Json(nullptr)},
          {"load", if_seen(seen.load)},
          {"sampled", rank.usage ? Json(time_text(seen.sampled)) : Json(nullptr)}};
}

Json lines_json(std::string_view text) {
  Json lines = Json::array();
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = micros / 1'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::string fraction = std::to_string(1'000'000 + micros % 1'000'000);
  fraction[0] = '.';
  return std::string(text.data(), length) + fraction + "Z";
}

Json rank_json(const RankReport& rank) {
  Json json;
  json["rank"] = rank.rank;
  json["host"] = rank.host.to_string();
  json["point"] = rank.point;
  json["pid"] = rank.pid > 0 ? Json(rank.pid) : Json(nullptr);
  json["status"] = std::string(to_string(rank.state));
  json["exit_code"] = rank.is_terminal() && rank.signal == 0 && rank.state != ProcState::failed
                          ? Json(rank.exit_code)
                          : Json(nullptr);
  json["signal"] = rank.signal > 0 ? Json(rank.signal) : Json(nullptr);
  json["restarts"] = rank.restarts;
  json["started"] = time_json(rank.started);
  json["ended"] = time_json(rank.ended);
  json["reason"] = rank.words();
  json["cause"] = rank.is_terminal() ? Json(std::string(to_string(rank.cause))) : Json(nullptr);
  json["consequence"] = rank.consequence;
  json["because"] = rank.because ? Json(*rank.because) : Json(nullptr);
  // The command or launcher that ended it, if any.
  json["stop"] = rank.step == StopStep::none ? Json(nullptr)
                                             : Json({{"step", std::string(to_string(rank.step))},
                                                     {"by", rank.stopped_by},
                                                     {"reason", rank.stop_reason}});
  json["trouble"] = rank.trouble == Trouble::none
                        ? Json(nullptr)
                        : Json({{"trouble", std::string(to_string(rank.trouble))},
                                {"reason", rank.trouble_reason},
                                {"since", time_json(rank.trouble_since)}});
  json["usage"] = usage_json(rank);
  json["stderr_tail"] = lines_json(rank.stderr_tail);
  return json;
}

Json drains_json(const std::vector<DrainReport>& drains) {
  Json list = Json::array();
  for (const auto& drain : drains) {
    list.push_back({{"mesh", drain.mesh.empty() ? Json(nullptr) : Json(drain.mesh)},
                    {"owner", drain.owner.empty() ? Json(nullptr) : Json(drain.owner)},
                    {"reason", drain.reason},
                    {"by", drain.requester},
                    {"hold", drain.hold},
                    {"left", drain.left}});
  }
  return list;
}

Json event_json(const HostEvent& event) {
  Json json;
  json["time"] = time_text(event.time);
  json["host"] = event.host.to_string();
  json["kind"] = std::string(to_string(event.kind));
  json["mesh"] = event.mesh.empty() ? Json(nullptr) : Json(event.mesh);
  json["ranks"] = event.ranks.empty() ? Json(nullptr) : Json(to_string(event.ranks));
  json["by"] = event.by.empty() ? Json(nullptr) : Json(event.by);
  json["text"] = event.text;
  json["because"] = event.because ? Json(*event.because) : Json(nullptr);
  json["end"] = event.end ? rank_json(*event.end) : Json(nullptr);
  return json;
}

std::string dump(const Json& json, int indent) {
  auto text = json.dump(indent, ' ', false, Json::error_handler_t::replace);
  // JSON lets DEL stand as it is; a terminal acts on it.
  for (auto at = text.find('\x7f'); at != std::string::npos; at = text.find('\x7f', at))
    text.replace(at, 1, "\\u007f");
  return text;
}

}  // namespace meshbus::reports

#include "cli/run/launch_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <vector>

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;
using Time = std::chrono::system_clock::time_point;
using std::chrono::nanoseconds;

/// The ranks with the longest launch that are named.
constexpr std::size_t kSlowest = 5;

struct Slice {
  LaunchStage stage;  ///< That it ended with.
  Time begin;
  Time end;
};

/// The stages that a rank has gone through; each begins where the one before it ended.
std::vector<Slice> slices_of(const LaunchTimes& times) {
  std::vector<Slice> slices;
  if (!times.asked) return slices;
  Time last = *times.asked;
  for (const auto stage : {LaunchStage::spawned, LaunchStage::exec, LaunchStage::connected,
                           LaunchStage::hello, LaunchStage::ready}) {
    const auto& at = times.at(stage);
    if (!at) continue;
    // Agent and proc read the clock one after the other, and it may be set in between.
    const Time end = std::max(last, *at);
    slices.push_back({stage, last, end});
    last = end;
  }
  return slices;
}

std::string milliseconds(nanoseconds duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", static_cast<double>(duration.count()) / 1e6);
  return text.data();
}

/// Nearest rank: the value that so many percent do not exceed. Of sorted values.
nanoseconds percentile(const std::vector<nanoseconds>& values, std::size_t percent) {
  return values[(values.size() * percent + 99) / 100 - 1];
}

void add_row(std::string& text, std::string_view name, std::vector<nanoseconds>& values) {
  std::sort(values.begin(), values.end());
  std::array<char, 128> row{};
  std::snprintf(row.data(), row.size(), "meshbus:   %-10s %7zu %10s %10s %10s\n",
                std::string(name).c_str(), values.size(),
                milliseconds(percentile(values, 50)).c_str(),
                milliseconds(percentile(values, 99)).c_str(), milliseconds(values.back()).c_str());
  text += row.data();
}

/// "rank 3 on HOST, 12.00 ms: spawned 10.00, exec'd 2.00"
std::string launch_words(const RankReport& rank, const std::vector<Slice>& slices) {
  std::string text = milliseconds(slices.back().end - slices.front().begin) + " ms";
  for (const auto& slice : slices)
    text += (slice.stage == slices.front().stage ? ": " : ", ") +
            std::string(to_string(slice.stage)) + " " + milliseconds(slice.end - slice.begin);
  return "rank " + std::to_string(rank.rank) + " on " + rank.host.to_string() + ", " + text;
}

}  // namespace

std::string launch_report(const ProcMeshRef& mesh, const MeshOutcome& outcome) {
  std::map<LaunchStage, std::vector<nanoseconds>> stages;
  std::vector<nanoseconds> whole;
  std::vector<std::pair<const RankReport*, std::vector<Slice>>> launched;
  for (const auto& rank : outcome.ranks) {
    auto slices = slices_of(rank.launch);
    for (const auto& slice : slices) stages[slice.stage].push_back(slice.end - slice.begin);
    if (!rank.launch.ready) continue;
    whole.push_back(slices.back().end - slices.front().begin);
    launched.emplace_back(&rank, std::move(slices));
  }
  std::string text = "meshbus: launch of " + mesh.mesh().to_string() + ": " +
                     std::to_string(launched.size()) + " of " +
                     std::to_string(outcome.ranks.size()) + " ranks were ready\n";
  if (!stages.empty()) {
    text +=
        "meshbus:   stage        ranks        p50        p99        max  (ms since the stage "
        "before)\n";
    for (auto& [stage, values] : stages) add_row(text, to_string(stage), values);
    if (!whole.empty()) add_row(text, "all", whole);
  }
  std::stable_sort(launched.begin(), launched.end(), [](const auto& a, const auto& b) {
    return a.second.back().end - a.second.front().begin >
           b.second.back().end - b.second.front().begin;
  });
  if (!launched.empty()) text += "meshbus: slowest:\n";
  for (std::size_t i = 0; i < std::min(kSlowest, launched.size()); ++i)
    text += "meshbus:   " + launch_words(*launched[i].first, launched[i].second) + "\n";
  if (const auto stuck = describe_stuck(outcome.ranks); !stuck.empty())
    text += "meshbus: never ready: " + stuck + "\n";
  return text;
}

std::string launch_trace(const ProcMeshRef& mesh, const MeshOutcome& outcome) {
  std::optional<Time> first;
  for (const auto& rank : outcome.ranks) {
    if (rank.launch.asked)
      first = first ? std::min(*first, *rank.launch.asked) : *rank.launch.asked;
  }
  Json events = Json::array();
  const auto name = [&](const char* what, std::uint64_t host, const Json& thread,
                        const std::string& text) {
    Json event{{"ph", "M"}, {"name", what}, {"pid", host + 1}, {"args", {{"name", text}}}};
    if (!thread.is_null()) event["tid"] = thread;
    events.push_back(std::move(event));
  };
  const auto microseconds = [&](nanoseconds duration) {
    return static_cast<double>(duration.count()) / 1e3;
  };
  std::uint64_t named_hosts = 0;
  for (const auto& rank : outcome.ranks) {
    // 0 stands for "no process" with some readers.
    for (; named_hosts <= rank.host_index; ++named_hosts)
      name("process_name", named_hosts, nullptr,
           "host " + std::to_string(named_hosts) + ": " + mesh.hosts()[named_hosts].to_string());
    name("thread_name", rank.host_index, rank.rank + 1,
         "rank " + std::to_string(rank.rank) + (rank.point.empty() ? "" : " " + rank.point));
    const auto slice = [&](std::string_view stage, Time begin, Time end, Json arguments) {
      events.push_back({{"ph", "X"},
                        {"cat", "launch"},
                        {"name", std::string(stage)},
                        {"pid", rank.host_index + 1},
                        {"tid", rank.rank + 1},
                        {"ts", microseconds(begin - *first)},
                        {"dur", microseconds(std::max(end - begin, Time::duration::zero()))},
                        {"args", std::move(arguments)}});
    };
    const auto slices = slices_of(rank.launch);
    for (const auto& one : slices) slice(to_string(one.stage), one.begin, one.end, Json::object());
    if (!slices.empty() && rank.launch.ready && rank.ended)
      slice("run", slices.back().end, *rank.ended, {{"process", rank.pid}, {"end", rank.words()}});
  }
  return Json{{"displayTimeUnit", "ms"},
              {"otherData", {{"mesh", mesh.to_string()}}},
              {"traceEvents", std::move(events)}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace meshbus::cli

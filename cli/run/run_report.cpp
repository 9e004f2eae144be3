#include "cli/run/run_report.h"

#include <map>

#include <nlohmann/json.hpp>

#include "cli/run/rank_map.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

std::string count_of(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "rank 3" or "ranks 0-3,7"
std::string named(const std::vector<std::uint64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + to_string(to_rank_set(ranks));
}

}  // namespace

std::string last_words(const MeshOutcome& outcome) {
  if (!outcome.first_failure) return {};
  const RankReport& first = *outcome.first_failure;
  std::string text;
  std::string_view tail = first.stderr_tail;
  if (!tail.empty()) {
    text += "meshbus: last lines of rank " + std::to_string(first.rank) + " on stderr:\n";
    while (!tail.empty()) {
      const auto end = tail.find('\n');
      text += "meshbus: | " + shown(tail.substr(0, end)) + "\n";
      tail.remove_prefix(end == std::string_view::npos ? tail.size() : end + 1);
    }
  }
  std::vector<std::uint64_t> failed;
  std::vector<std::uint64_t> stopped;
  std::vector<std::uint64_t> left;
  for (const auto& rank : outcome.ranks) {
    if (rank.rank == first.rank) continue;
    if (!rank.is_terminal()) {
      left.push_back(rank.rank);
    } else if (rank.is_failure()) {
      failed.push_back(rank.rank);
    } else if (rank.step != StopStep::none) {
      stopped.push_back(rank.rank);
    }
  }
  if (!failed.empty())
    text += "meshbus: after it failed " + count_of(failed.size(), "more rank") + ": " +
            named(failed) + "\n";
  if (!stopped.empty()) text += "meshbus: stopped because of it: " + named(stopped) + "\n";
  if (!left.empty()) text += "meshbus: not ended, or nobody can say: " + named(left) + "\n";
  // A rank that misses a deadline of its launch is seldom alone.
  if (first.code == ErrorCode::timeout)
    text += "meshbus: not ready: " + describe_stuck(outcome.ranks) + "\n";
  if (first.restarts > 0)
    text += "meshbus: rank " + std::to_string(first.rank) + " had been started anew " +
            count_of(first.restarts, "time") + "\n";
  // The one line that matters stands last, where a terminal shows it.
  return text + "meshbus: first failure: " + shown_lines(first.describe()) + "\n";
}

std::string words_of_silence(const std::vector<RankReport>& silent) {
  std::map<HostAddr, std::vector<std::uint64_t>> by_host;
  for (const auto& rank : silent) by_host[rank.host].push_back(rank.rank);
  std::string text;
  for (const auto& [host, here] : by_host)
    text += (text.empty() ? "" : "; ") + named(here) + " not stopped: host " + host.to_string() +
            " does not answer";
  return text;
}

std::string words_of_left(const std::vector<RankReport>& left, bool may_live_on) {
  std::vector<RankReport> silent;
  std::vector<std::uint64_t> deaf;
  for (const auto& rank : left) {
    if (rank.state == ProcState::unknown) {
      silent.push_back(rank);
    } else {
      deaf.push_back(rank.rank);
    }
  }
  std::string text;
  if (!silent.empty())
    text = words_of_silence(silent) +
           (may_live_on ? "; giving up: they may live on" : "; they end with their host, now");
  if (!deaf.empty())
    text += (text.empty() ? "" : "; ") + named(deaf) + (deaf.size() == 1 ? " is" : " are") +
            " still there after SIGKILL: giving up";
  return text;
}

std::string words_of_a_stop(const MeshOutcome& outcome) {
  std::vector<std::uint64_t> stopped;
  const RankReport* first = nullptr;
  for (const auto& rank : outcome.ranks) {
    if (rank.step == StopStep::none) continue;
    stopped.push_back(rank.rank);
    if (first == nullptr || first->stopped_by.empty()) first = &rank;
  }
  if (first == nullptr) return {};
  return "meshbus: " + named(stopped) + (stopped.size() == 1 ? " was" : " were") + " stopped by " +
         (first->stopped_by.empty() ? "another program" : first->stopped_by) +
         (first->stop_reason.empty() ? "" : ": " + first->stop_reason) + "\n";
}

std::string json_report(const Error& error, int exit_code) {
  nlohmann::ordered_json json;
  json["mesh"] = nullptr;
  json["region"] = nullptr;
  json["ranks"] = nlohmann::ordered_json::array();
  json["first_failure"] = nullptr;
  json["exit_code"] = exit_code;
  json["error"] = error.to_string();
  return dump(json, 2) + "\n";
}

std::string json_report(const ProcMeshRef& mesh, const MeshOutcome& outcome, int exit_code,
                        const std::vector<FormerAttempt>& attempts, const BindingMap& bindings,
                        const nlohmann::ordered_json& stacks) {
  nlohmann::ordered_json json;
  json["mesh"] = mesh.mesh().to_string();
  json["region"] = mesh.region().to_string();
  json["ranks"] = nlohmann::ordered_json::array();
  for (const auto& rank : outcome.ranks) json["ranks"].push_back(rank_json(rank));
  json["former_lives"] = nlohmann::ordered_json::array();
  for (const auto& life : outcome.former_lives) json["former_lives"].push_back(rank_json(life));
  json["first_failure"] = outcome.first_failure
                              ? nlohmann::ordered_json(outcome.first_failure->rank)
                              : nlohmann::ordered_json(nullptr);
  json["exit_code"] = exit_code;
  json["attempts"] = nlohmann::ordered_json::array();
  for (const auto& attempt : attempts)
    json["attempts"].push_back(
        {{"mesh", attempt.mesh}, {"lost_hosts", attempt.lost_hosts}, {"reason", attempt.reason}});
  json["binding"] = rank_map_json(mesh, bindings);
  json["stacks"] = stacks;
  return dump(json, 2) + "\n";
}

}  // namespace meshbus::cli

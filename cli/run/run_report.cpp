#include "cli/run/run_report.h"

#include <unistd.h>

#include <map>

#include <nlohmann/json.hpp>

#include "cli/run/rank_map.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "common/base/requester_text.h"

namespace meshbus::cli {
namespace {

std::string count_of(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "rank 3" or "ranks 0-3,7"
std::string named(const std::vector<std::uint64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + to_string(to_rank_set(ranks));
}

std::string prefix_of(const RoleOutcome& role) {
  return role.name.empty() ? "" : role.name + " ";
}

/// Ranks of several roles: "trainer rank 3, rollout ranks 0-7".
class Named {
 public:
  void add(const RoleOutcome& role, std::uint64_t rank) {
    if (roles_.empty() || roles_.back().first != &role) roles_.push_back({&role, {}});
    roles_.back().second.push_back(rank);
    ++count_;
  }
  std::uint64_t count() const { return count_; }
  std::string text() const {
    std::string text;
    for (const auto& [role, ranks] : roles_)
      text += (text.empty() ? "" : ", ") + prefix_of(*role) + named(ranks);
    return text;
  }

 private:
  std::vector<std::pair<const RoleOutcome*, std::vector<std::uint64_t>>> roles_;
  std::uint64_t count_ = 0;
};

}  // namespace

std::optional<RoleFailure> first_failure(const std::vector<RoleOutcome>& roles) {
  std::optional<RoleFailure> first;
  for (const auto& role : roles) {
    if (!role.ranks.first_failure) continue;
    const auto& report = *role.ranks.first_failure;
    const bool is_earlier =
        first && first->report->ended && report.ended && *report.ended < *first->report->ended;
    // An earlier one of a role that ends no job was left to itself.
    if (!first || (role.ends_job == first->role->ends_job ? is_earlier : role.ends_job))
      first = RoleFailure{&role, &report};
  }
  return first;
}

std::string words_of(const RoleFailure& failure) {
  return (failure.role->name.empty() ? "" : failure.role->name + " ") + failure.report->describe();
}

std::string not_found_hint(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  const auto& program = command.front();
  if (program.find(' ') != std::string::npos)
    return "meshbus: a line with blanks is for a shell: -- sh -c '" + shown(program) + "'\n";
  if (program == "python") return "meshbus: is it python3? Many systems have no python\n";
  if (program.find('/') != std::string::npos || ::access(program.c_str(), F_OK) != 0) return {};
  const bool is_python = program.ends_with(".py");
  return "meshbus: did you mean ./" + shown(program) +
         (is_python ? " or python3 " + shown(program) : "") +
         "? A name without / is looked up in PATH\n";
}

std::string last_words(const std::vector<RoleOutcome>& roles, bool is_stopped_elsewhere) {
  const auto failure = first_failure(roles);
  if (!failure) return {};
  const RankReport& first = *failure->report;
  const auto who = prefix_of(*failure->role) + "rank " + std::to_string(first.rank);
  std::string text;
  std::string_view tail = first.stderr_tail;
  if (!tail.empty()) {
    text += "meshbus: last lines of " + who + " on stderr:\n";
    while (!tail.empty()) {
      const auto end = tail.find('\n');
      text += "meshbus: | " + shown(tail.substr(0, end)) + "\n";
      tail.remove_prefix(end == std::string_view::npos ? tail.size() : end + 1);
    }
  }
  Named failed;
  Named stopped;
  Named left;
  for (const auto& role : roles) {
    for (const auto& rank : role.ranks.ranks) {
      if (&role == failure->role && rank.rank == first.rank) continue;
      if (!rank.is_terminal()) {
        left.add(role, rank.rank);
      } else if (rank.is_failure()) {
        failed.add(role, rank.rank);
      } else if (rank.step != StopStep::none) {
        stopped.add(role, rank.rank);
      }
    }
  }
  if (failed.count() > 0)
    text += "meshbus: after it failed " + count_of(failed.count(), "more rank") + ": " +
            failed.text() + "\n";
  if (stopped.count() > 0 && !is_stopped_elsewhere)
    text += "meshbus: stopped because of it: " + stopped.text() + "\n";
  if (left.count() > 0) text += "meshbus: not ended, or nobody can say: " + left.text() + "\n";
  // A rank that misses a deadline of its launch is seldom alone.
  if (first.code == ErrorCode::timeout)
    text += "meshbus: not ready: " + describe_stuck(failure->role->ranks.ranks) + "\n";
  if (first.restarts > 0)
    text += "meshbus: " + who + " had been started anew " + count_of(first.restarts, "time") + "\n";
  // The one line that matters stands last, where a terminal shows it.
  return text + "meshbus: first failure: " + words_of(*failure) + "\n";
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

std::string words_of_a_stop(const std::vector<RoleOutcome>& roles) {
  Named stopped;
  const RankReport* first = nullptr;
  for (const auto& role : roles) {
    for (const auto& rank : role.ranks.ranks) {
      // This run stopped the others after the first one.
      if (rank.step == StopStep::none ||
          rank.stop_reason.find(kStoppedElsewhere) != std::string::npos)
        continue;
      stopped.add(role, rank.rank);
      if (first == nullptr || first->stopped_by.empty()) first = &rank;
    }
  }
  if (first == nullptr) return {};
  return "meshbus: " + stopped.text() + (stopped.count() == 1 ? " was" : " were") + " stopped by " +
         (first->stopped_by.empty() ? "another program" : requester_text(first->stopped_by)) +
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

namespace {

/// What the report of a run and that of one role of several have in common.
void add_ranks(nlohmann::ordered_json& json, const RoleOutcome& role) {
  using Json = nlohmann::ordered_json;
  json["mesh"] = role.mesh ? Json(role.mesh->mesh().to_string()) : Json(nullptr);
  json["region"] = role.mesh ? Json(role.mesh->region().to_string()) : Json(nullptr);
  json["ranks"] = Json::array();
  for (const auto& rank : role.ranks.ranks) json["ranks"].push_back(rank_json(rank));
  json["former_lives"] = Json::array();
  for (const auto& life : role.ranks.former_lives) json["former_lives"].push_back(rank_json(life));
  json["first_failure"] =
      role.ranks.first_failure ? Json(role.ranks.first_failure->rank) : Json(nullptr);
}

}  // namespace

std::string json_report(const RoleOutcome& role, int exit_code,
                        const std::vector<FormerAttempt>& attempts,
                        const nlohmann::ordered_json& stacks) {
  nlohmann::ordered_json json;
  add_ranks(json, role);
  json["exit_code"] = exit_code;
  json["attempts"] = nlohmann::ordered_json::array();
  for (const auto& attempt : attempts)
    json["attempts"].push_back({{"mesh", attempt.mesh},
                                {"lost_hosts", attempt.lost_hosts},
                                {"drained_hosts", attempt.drained_hosts},
                                {"reason", attempt.reason}});
  json["binding"] = rank_map_json(*role.mesh, role.bindings);
  json["stacks"] = stacks;
  return dump(json, 2) + "\n";
}

std::string json_report(const std::vector<RoleOutcome>& roles, int exit_code,
                        const nlohmann::ordered_json& stacks) {
  nlohmann::ordered_json json;
  json["roles"] = nlohmann::ordered_json::array();
  for (const auto& role : roles) {
    nlohmann::ordered_json one{{"role", role.name}};
    add_ranks(one, role);
    one["binding"] = role.mesh ? rank_map_json(*role.mesh, role.bindings) : nullptr;
    json["roles"].push_back(std::move(one));
  }
  json["first_failure"] = nullptr;
  if (const auto failure = first_failure(roles))
    json["first_failure"] = {{"role", failure->role->name}, {"rank", failure->report->rank}};
  json["exit_code"] = exit_code;
  json["stacks"] = stacks;
  return dump(json, 2) + "\n";
}

}  // namespace meshbus::cli

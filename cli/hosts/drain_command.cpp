#include "cli/hosts/drain_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/drain_text.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/selector.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DrainArguments {
  HostChoice hosts;
  /// Empty: every mesh.
  std::string mesh;
  /// A ProcId; empty: every owner.
  std::string owner;
  std::string reason;
  bool hold = false;
  bool resume = false;
  std::optional<std::chrono::milliseconds> grace;
};

/// Whether the command line names whole meshes, or none. Otherwise stderr says what is wrong.
bool is_usage_right(const DrainArguments& arguments) {
  const auto parsed = Selector::parse(arguments.mesh);
  if (!parsed) {
    complain(parsed.error().detail());
  } else if (!parsed->ranks.empty() || !parsed->slices.empty()) {
    complain("drain takes whole meshes, not ranks of them as in '" + arguments.mesh +
             "'; meshbus stop ends ranks");
  } else {
    return true;
  }
  return false;
}

/// The whole names of the meshes that are meant; an empty one means every mesh. None: stderr says
/// why.
std::vector<std::string> scopes_of(const ReachedHosts& hosts, const DrainArguments& arguments) {
  if (arguments.mesh.empty()) return {""};
  // A mesh that is not there can be kept from being started, and what is held can be ended.
  if (const auto name = Name::parse(arguments.mesh); name && name->to_string() != name->base())
    return {arguments.mesh};
  std::vector<std::string> names;
  const auto meant = choose_meshes(hosts.listing, {.selector = arguments.mesh}, Among::all);
  for (const auto& one : meant.all) names.push_back(one.mesh->name);
  return names;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

int resume(ReachedHosts& hosts, const std::string& mesh, const DrainArguments& arguments) {
  const auto orders = act_on_all<bool>(hosts, [&](HostMesh& part) -> Result<bool> {
    const auto resumed = part.resume(mesh, arguments.owner, hosts.left);
    return resumed ? Result<bool>(true) : Result<bool>(fail(resumed.error()));
  });
  int code = 0;
  for (const auto& order : orders) {
    if (order.outcome) continue;
    complain(order.was_silent
                 ? "host " + order.hosts.front().to_string() + " not resumed: it does not answer"
                 : order.outcome.error().to_string());
    code = kFailed;
  }
  if (code == 0 && !arguments.hosts.json)
    std::cout << drain_scope(mesh, arguments.owner) << ": may be started again\n";
  return code;
}

int drain(ReachedHosts& hosts, const std::string& mesh, const DrainArguments& arguments,
          Json& json) {
  DrainOptions options{
      .mesh = mesh, .owner = arguments.owner, .hold = arguments.hold, .grace = arguments.grace};
  options.reason = arguments.reason.empty() ? "meshbus drain" : arguments.reason;
  if (arguments.hosts.is_timeout_given) options.deadline = hosts.left;
  const auto orders =
      act_on_all<DrainSummary>(hosts, [&](HostMesh& part) { return part.drain(options); });
  DrainSummary all;
  std::vector<std::string> problems;
  std::size_t done = 0;
  for (const auto& order : orders) {
    if (order.outcome) {
      ++done;
      all.attempted += order.outcome->attempted;
      all.ok += order.outcome->ok;
      all.failed += order.outcome->failed;
    } else {
      problems.push_back(order.was_silent ? "host " + order.hosts.front().to_string() +
                                                " not drained: it does not answer"
                                          : order.outcome.error().to_string());
    }
  }
  for (const auto& problem : problems) complain(problem);
  if (arguments.hosts.json) {
    if (done > 0)
      json.push_back({{"mesh", text_or_null(mesh)},
                      {"owner", text_or_null(arguments.owner)},
                      {"attempted", all.attempted},
                      {"ok", all.ok},
                      {"failed", all.failed},
                      {"hold", arguments.hold},
                      {"not_done", problems}});
  } else if (done > 0) {
    std::cout << "drained " << drain_scope(mesh, arguments.owner) << ": " << all.ok << " of "
              << all.attempted << " procs ended"
              << (arguments.hold
                      ? "; the hosts start no such procs until meshbus drain --resume, or until "
                        "they are restarted"
                      : "")
              << "\n";
  }
  return problems.empty() ? 0 : kFailed;
}

int run(const DrainArguments& arguments) {
  using Clock = std::chrono::steady_clock;
  if (!arguments.mesh.empty() && !is_usage_right(arguments)) return kUsage;
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meshes = scopes_of(hosts, arguments);
  if (meshes.empty()) return kFailed;
  const auto end = Clock::now() + hosts.left;
  int code = 0;
  Json json = Json::array();
  for (const auto& mesh : meshes) {
    if (arguments.hosts.is_timeout_given)
      hosts.left =
          std::max(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()), kLeastTime);
    code = std::max(code, arguments.resume ? resume(hosts, mesh, arguments)
                                           : drain(hosts, mesh, arguments, json));
  }
  if (arguments.hosts.json && !arguments.resume) std::cout << dump(json, 2) << "\n";
  return code;
}

}  // namespace

void add_drain(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<DrainArguments>();
  auto& verb = commands.add(
      app, "drain",
      {.meaning = "Stop procs, and start no others until they have ended; the hosts stay",
       .examples = {"drain --hosts tcp:node3:7420 --hold --reason maintenance",
                    "drain --hosts tcp:node3:7420 --resume"},
       .exit_codes = "0; 1 a proc did not end, or a host does not answer"},
      [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("MESH", arguments->mesh,
                  "Name of the mesh, with or without its uuid; 'train*': all of that pattern; "
                  "default: every mesh");
  verb.add_option("--owner", arguments->owner,
                  "Only procs that this launcher answers for: OWNER in meshbus ps --json")
      ->type_name("ADDRESS,NAME");
  auto* hold = verb.add_flag("--hold", arguments->hold,
                             "Go on refusing to start any, until --resume or the end of the host");
  auto* resume =
      verb.add_flag("--resume", arguments->resume,
                    "End what --hold began, for the same MESH and --owner; stops nothing")
          ->excludes(hold);
  verb.add_option("--reason", arguments->reason,
                  "Why: shown to launchers that want to start procs, and in the exit reports")
      ->excludes(resume);
  add_grace(verb, arguments->grace);
}

}  // namespace meshbus::cli

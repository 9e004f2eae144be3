#include "cli/hosts/drain_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/drain_text.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

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

/// The whole names of the meshes that are meant; one empty name = every mesh. None: it has been
/// said.
std::vector<std::string> scopes(const HostMesh& hosts, const DrainArguments& arguments) {
  if (arguments.mesh.empty()) return {""};
  const auto listing = hosts.meshes(arguments.hosts.timeout);
  if (!listing) {
    complain(listing.error().to_string());
    return {};
  }
  std::vector<std::string> names;
  for (const auto* mesh : matching(*listing, arguments.mesh)) names.push_back(mesh->name);
  // One that is not there (any more) can be kept from being started, and what is held can be ended.
  if (const auto name = Name::parse(arguments.mesh);
      names.empty() && name && name->to_string() != name->base())
    names.push_back(arguments.mesh);
  if (names.empty())
    complain("no mesh '" + arguments.mesh + "' on these hosts; meshbus ps -a lists what is there");
  return names;
}

int drain(HostMesh& hosts, const DrainArguments& arguments) {
  const auto names = scopes(hosts, arguments);
  int code = names.empty() ? 1 : 0;
  auto json = nlohmann::ordered_json::array();
  for (const auto& name : names) {
    const auto scope = drain_scope(name, arguments.owner);
    if (arguments.resume) {
      if (const auto resumed = hosts.resume(name, arguments.owner, arguments.hosts.timeout);
          !resumed) {
        complain(resumed.error().to_string());
        code = 1;
      } else if (!arguments.hosts.json) {
        std::cout << scope << ": may be started again\n";
      }
      continue;
    }
    DrainOptions options{
        .mesh = name, .owner = arguments.owner, .hold = arguments.hold, .grace = arguments.grace};
    options.reason = arguments.reason.empty() ? "meshbus drain" : arguments.reason;
    if (arguments.hosts.is_timeout_given) options.deadline = arguments.hosts.timeout;
    const auto summary = hosts.drain(options);
    if (!summary) {
      complain(summary.error().to_string());
      code = 1;
      continue;
    }
    json.push_back(
        {{"mesh", name.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(name)},
         {"owner", arguments.owner.empty() ? nlohmann::ordered_json(nullptr)
                                           : nlohmann::ordered_json(arguments.owner)},
         {"attempted", summary->attempted},
         {"ok", summary->ok},
         {"failed", summary->failed},
         {"hold", arguments.hold}});
    if (!arguments.hosts.json)
      std::cout << "drained " << scope << ": " << summary->ok << " of " << summary->attempted
                << " procs ended"
                << (arguments.hold
                        ? "; nothing of that is started here until meshbus drain --resume"
                        : "")
                << "\n";
  }
  if (arguments.hosts.json && !arguments.resume) std::cout << dump(json, 2) << "\n";
  return code;
}

int run(DrainArguments arguments) {
  auto attached = attach_hosts(arguments.hosts, Need::all);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  auto& all = std::get<AttachedHosts>(attached);
  // --timeout is for all of it.
  arguments.hosts.timeout = std::max(arguments.hosts.timeout - all.took, least_time);
  return drain(all.hosts, arguments);
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
                  "Name of the mesh, with or without its uuid; default: every mesh");
  verb.add_option("--owner", arguments->owner,
                  "Only procs that this launcher answers for: OWNER in meshbus ps --json")
      ->type_name("ADDRESS,NAME");
  auto* hold =
      verb.add_flag("--hold", arguments->hold, "Go on refusing to start any, until --resume");
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

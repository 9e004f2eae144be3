#include "cli/mesh/stop_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StopArguments {
  HostChoice hosts;
  std::string mesh;
  std::optional<std::chrono::milliseconds> grace;
};

int stop(HostMesh& mesh, const StopArguments& arguments) {
  auto listing = mesh.meshes(arguments.hosts.timeout);
  if (!listing) {
    complain(listing.error().to_string());
    return 1;
  }
  std::vector<std::string> names;
  for (const auto* one : matching(*listing, arguments.mesh)) names.push_back(one->name);
  if (names.empty()) {
    complain("no mesh '" + arguments.mesh + "' on these hosts; meshbus ps lists what is there");
    return 1;
  }
  int code = 0;
  Json json = Json::array();
  for (const auto& name : names) {
    StopOptions options;
    options.reason = "meshbus stop";
    options.grace = arguments.grace;
    options.deadline = arguments.hosts.timeout;
    auto ranks = mesh.stop_mesh(name, options);
    if (!ranks) {
      complain(name + ": " + ranks.error().to_string());
      code = 1;
      continue;
    }
    if (arguments.hosts.json) {
      Json list = Json::array();
      for (const auto& rank : *ranks) list.push_back(rank_json(rank));
      json.push_back({{"mesh", name}, {"ranks", list}});
    } else {
      std::cout << "stopped " << name << ": " << ranks->size() << " ranks ended\n";
    }
  }
  if (arguments.hosts.json) std::cout << dump(json, 2) << "\n";
  return code;
}

int run(StopArguments arguments) {
  auto attached = attach_hosts(arguments.hosts, Need::all);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  auto& all = std::get<AttachedHosts>(attached);
  // --timeout is for all of it.
  arguments.hosts.timeout = std::max(arguments.hosts.timeout - all.took, least_time);
  return stop(all.hosts, arguments);
}

}  // namespace

void add_stop(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<StopArguments>();
  auto& verb =
      commands.add(app, "stop",
                   {.meaning = "Stop the procs of a mesh",
                    .examples = {"stop train", "stop train --grace 2s"},
                    .exit_codes = "0 all ranks have ended; 1 no such mesh, a rank that has "
                                  "not ended, or a host that does not answer"},
                   [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("MESH", arguments->mesh, "Name of the mesh, with or without its uuid")
      ->required();
  add_grace(verb, arguments->grace);
}

}  // namespace meshbus::cli

#include "cli/hosts_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

#include "cli/drain_command.h"
#include "cli/ping_command.h"
#include "cli/ps_command.h"
#include "cli/rank_json.h"
#include "cli/status_command.h"
#include "cli/text_error.h"
#include "cli/watch_command.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

int stop(HostMesh& mesh, const HostsArguments& arguments) {
  auto listing = mesh.meshes(arguments.timeout);
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
    options.deadline = arguments.timeout;
    auto ranks = mesh.stop_mesh(name, options);
    if (!ranks) {
      complain(name + ": " + ranks.error().to_string());
      code = 1;
      continue;
    }
    if (arguments.json) {
      Json list = Json::array();
      for (const auto& rank : *ranks) list.push_back(rank_json(rank));
      json.push_back({{"mesh", name}, {"ranks", list}});
    } else {
      std::cout << "stopped " << name << ": " << ranks->size() << " ranks ended\n";
    }
  }
  if (arguments.json) std::cout << dump(json, 2) << "\n";
  return code;
}

int shutdown(const HostsArguments& arguments) {
  const auto found = find_hosts(arguments);
  if (const int* code = std::get_if<int>(&found)) return *code;
  auto context = std::get<FoundHosts>(found).make_context();
  if (!context) {
    complain(context.error().to_string());
    return kUsage;
  }
  int code = 0;
  std::size_t count = 0;
  ShutdownSummary all;
  for (const auto& part : std::get<FoundHosts>(found).parts()) {
    auto mesh = attach(*context, part, arguments);
    auto summary =
        mesh ? mesh->shutdown(arguments.timeout, arguments.grace, "meshbus shutdown") : Result<ShutdownSummary>(fail(mesh.error()));
    if (!summary) {
      complain(summary.error().to_string());
      code = 1;
      continue;
    }
    count += part.addresses.size();
    all.hosts += summary->hosts;
    all.attempted += summary->attempted;
    all.ok += summary->ok;
    all.failed += summary->failed;
  }
  if (count == 0) return code;
  if (arguments.json) {
    std::cout << dump({{"hosts", all.hosts}, {"attempted", all.attempted}, {"ok", all.ok}, {"failed", all.failed}}) << "\n";
  } else {
    std::cout << count << (count == 1 ? " host is" : " hosts are") << " down; " << all.ok << " of " << all.attempted << " procs ended\n";
  }
  return all.failed == 0 ? code : 1;
}

}  // namespace

std::vector<const MeshReport*> matching(const MeshListing& listing, const std::string& word) {
  std::vector<const MeshReport*> found;
  for (const auto& mesh : listing.meshes) {
    if (mesh.name == word || mesh.name.substr(0, mesh.name.rfind('-')) == word) found.push_back(&mesh);
  }
  return found;
}

int hosts_command(const HostsArguments& said) {
  if (said.verb == HostsArguments::Verb::ping) return ping_command(said);
  if (said.verb == HostsArguments::Verb::watch) return watch_command(said);
  if (said.verb == HostsArguments::Verb::ps) return ps_command(said);
  if (said.verb == HostsArguments::Verb::shutdown) return shutdown(said);
  auto attached = attach_hosts(said);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  // --timeout is for all of it.
  auto arguments = said;
  arguments.timeout = std::max(arguments.timeout - std::get<AttachedHosts>(attached).took, least_time);
  auto& mesh = std::get<AttachedHosts>(attached).hosts;
  switch (arguments.verb) {
    case HostsArguments::Verb::stop: return stop(mesh, arguments);
    case HostsArguments::Verb::status: return status_command(std::get<AttachedHosts>(attached).context, mesh, arguments);
    case HostsArguments::Verb::drain: return drain_command(mesh, arguments);
    case HostsArguments::Verb::ps:
    case HostsArguments::Verb::shutdown:
    case HostsArguments::Verb::ping:
    case HostsArguments::Verb::logs:
    case HostsArguments::Verb::watch:
    case HostsArguments::Verb::why:
    case HostsArguments::Verb::spawn:
    case HostsArguments::Verb::controller:
    case HostsArguments::Verb::talk:
    case HostsArguments::Verb::config: break;
  }
  return kUsage;
}

}  // namespace meshbus::cli

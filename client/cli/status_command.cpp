#include "client/cli/status_command.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <map>
#include <vector>

#include "client/cli/hosts_command.h"
#include "client/cli/rank_json.h"
#include "client/cli/text_error.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The ranks of each status, by its order.
std::map<Status, std::vector<std::uint64_t>> group(const StatusMesh& statuses) {
  std::map<Status, std::vector<std::uint64_t>> groups;
  for (std::uint64_t rank = 0; rank < statuses.region().num_ranks(); ++rank) groups[*statuses.get(rank)].push_back(rank);
  return groups;
}

/// The live ranks that are slow, and those that are frozen.
std::map<Trouble, std::vector<std::uint64_t>> troubles_of(const MeshReport& mesh) {
  std::map<Trouble, std::vector<std::uint64_t>> troubles;
  for (const auto& rank : mesh.ranks) {
    if (rank.trouble != Trouble::none) troubles[rank.trouble].push_back(rank.rank);
  }
  return troubles;
}

Json to_json(const MeshReport& mesh, const StatusMesh& statuses) {
  Json list = Json::array();
  for (const auto& [status, ranks] : group(statuses)) {
    list.push_back({{"status", std::string(to_string(status.kind()))},
                    {"reason", status.reason().empty() ? Json(nullptr) : Json(status.reason())},
                    {"ranks", to_string(to_rank_set(ranks))}});
  }
  Json troubles = Json::array();
  for (const auto& [trouble, ranks] : troubles_of(mesh))
    troubles.push_back({{"trouble", std::string(to_string(trouble))}, {"ranks", to_string(to_rank_set(ranks))}});
  return {{"mesh", mesh.name}, {"region", mesh.region.to_string()}, {"statuses", list}, {"troubles", troubles}};
}

}  // namespace

int status_command(const HostMesh& hosts, const HostsArguments& arguments) {
  const auto listing = hosts.meshes(arguments.timeout);
  if (!listing) {
    complain(listing.error().to_string());
    return 1;
  }
  std::vector<const MeshReport*> meshes;
  if (arguments.mesh.empty()) {
    for (const auto& mesh : listing->meshes) meshes.push_back(&mesh);
  } else {
    meshes = matching(*listing, arguments.mesh);
    if (meshes.empty()) complain("no mesh '" + arguments.mesh + "' on these hosts; meshbus ps -a lists what is there");
  }
  int code = listing->unreachable.empty() && !(meshes.empty() && !arguments.mesh.empty()) ? 0 : 1;
  for (const auto& host : listing->unreachable) complain("host " + host.host.to_string() + " does not answer: " + host.problem);
  Json json = Json::array();
  for (const auto* mesh : meshes) {
    const auto ref = mesh->ref();
    const auto statuses = !ref             ? Result<StatusMesh>(fail(ref.error()))
                          : arguments.wait ? hosts.wait_status(*ref, *arguments.wait, {.deadline = arguments.timeout, .idle = {}})
                                           : hosts.statuses(*ref, arguments.timeout);
    if (!statuses) {
      complain(statuses.error().to_string());
      code = 1;
      continue;
    }
    const auto groups = group(*statuses);
    for (const auto& [status, ranks] : groups) {
      // Whoever waits wants to know whether all went well.
      if (status.kind() == Status::Kind::unknown || (arguments.wait && status.is_failure())) code = 1;
    }
    if (arguments.json) {
      json.push_back(to_json(*mesh, *statuses));
      continue;
    }
    std::cout << mesh->name << "  ";
    bool is_first = true;
    for (const auto& [status, ranks] : groups) {
      std::cout << (is_first ? "" : "; ") << status << ": " << to_string(to_rank_set(ranks));
      is_first = false;
    }
    for (const auto& [trouble, ranks] : troubles_of(*mesh))
      std::cout << "; " << to_string(trouble) << ": " << to_string(to_rank_set(ranks));
    std::cout << "\n";
  }
  if (arguments.json) std::cout << dump(json, 2) << "\n";
  return code;
}

}  // namespace meshbus::cli

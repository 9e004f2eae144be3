#include "cli/watch/status_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StatusArguments {
  HostChoice hosts;
  /// Empty: every mesh.
  std::string mesh;
  /// The actors of that name instead of the procs.
  std::string actor;
  std::optional<Status::Kind> wait;
};

/// The ranks of each status, by its order.
using Groups = std::map<Status, std::vector<std::uint64_t>>;

Groups group(const StatusMesh& statuses) {
  Groups groups;
  for (std::uint64_t rank = 0; rank < statuses.region().num_ranks(); ++rank)
    groups[*statuses.get(rank)].push_back(rank);
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

Json to_json(const Groups& groups) {
  Json list = Json::array();
  for (const auto& [status, ranks] : groups) {
    list.push_back({{"status", std::string(to_string(status.kind()))},
                    {"reason", status.reason().empty() ? Json(nullptr) : Json(status.reason())},
                    {"ranks", to_string(to_rank_set(ranks))}});
  }
  return list;
}

/// "Running: 0-2; Failed("boom"): 3"
void print(const Groups& groups) {
  bool is_first = true;
  for (const auto& [status, ranks] : groups) {
    std::cout << (is_first ? "" : "; ") << status << ": " << to_string(to_rank_set(ranks));
    is_first = false;
  }
}

Json to_json(const MeshReport& mesh, const StatusMesh& statuses) {
  Json troubles = Json::array();
  for (const auto& [trouble, ranks] : troubles_of(mesh))
    troubles.push_back(
        {{"trouble", std::string(to_string(trouble))}, {"ranks", to_string(to_rank_set(ranks))}});
  return {{"mesh", mesh.name},
          {"region", mesh.region.to_string()},
          {"statuses", to_json(group(statuses))},
          {"troubles", troubles}};
}

/// How the actors of that name in a mesh stand, as their procs say, or the ends of these.
Result<Groups> group_actors(Context& context, const MeshReport& mesh, const Name& actor,
                            std::chrono::milliseconds limit) {
  auto procs = mesh.ref();
  if (!procs) return fail(procs.error());
  const auto view = ActorView::attach(context, ActorMeshRef(std::move(*procs), actor));
  if (!view) return fail(view.error());
  const auto reports = view->states(limit);
  if (!reports) return fail(reports.error());
  std::map<std::uint64_t, Status> statuses;
  for (const auto& report : *reports) {
    auto status = report.status;
    for (const auto& cause : report.causes)
      status = Status::failed(status.reason() + "; because: " + cause);
    statuses[report.rank] = status;
  }
  // An ended proc cannot be asked any more; what it had, its peers have.
  const bool is_any = std::any_of(statuses.begin(), statuses.end(), [](const auto& entry) {
    return entry.second.kind() != Status::Kind::unknown &&
           entry.second.kind() != Status::Kind::not_exist;
  });
  for (const auto& rank : mesh.ranks) {
    if (!is_any || !rank.is_terminal() || statuses[rank.rank].kind() != Status::Kind::unknown)
      continue;
    statuses[rank.rank] = rank.is_failure() ? Status::failed("its proc has ended: " + rank.words())
                                            : Status(Status::Kind::stopped);
  }
  Groups groups;
  for (const auto& [rank, status] : statuses) groups[status].push_back(rank);
  return groups;
}

/// Returns the exit code.
int show_actors(Context& context, const std::vector<const MeshReport*>& meshes,
                const StatusArguments& arguments) {
  const auto actor = Name::parse(arguments.actor);
  if (!actor) {
    complain(actor.error().within("--actor").to_string());
    return kUsage;
  }
  int code = 0;
  Json json = Json::array();
  for (const auto* mesh : meshes) {
    const auto groups = group_actors(context, *mesh, *actor, arguments.hosts.timeout);
    if (!groups) {
      complain(groups.error().to_string());
      code = 1;
      continue;
    }
    if (groups->contains(Status())) code = 1;
    if (arguments.hosts.json) {
      json.push_back({{"mesh", mesh->name},
                      {"actor", arguments.actor},
                      {"region", mesh->region.to_string()},
                      {"statuses", to_json(*groups)}});
      continue;
    }
    std::cout << mesh->name << "  actors " << arguments.actor << "  ";
    print(*groups);
    std::cout << "\n";
  }
  if (arguments.hosts.json) std::cout << dump(json, 2) << "\n";
  return code;
}

int status(Context& context, const HostMesh& hosts, const StatusArguments& arguments) {
  const auto listing = hosts.meshes(arguments.hosts.timeout);
  if (!listing) {
    complain(listing.error().to_string());
    return 1;
  }
  std::vector<const MeshReport*> meshes;
  if (arguments.mesh.empty()) {
    for (const auto& mesh : listing->meshes) meshes.push_back(&mesh);
  } else {
    meshes = matching(*listing, arguments.mesh);
    if (meshes.empty())
      complain("no mesh '" + arguments.mesh +
               "' on these hosts; meshbus ps -a lists what is there");
  }
  int code = listing->unreachable.empty() && !(meshes.empty() && !arguments.mesh.empty()) ? 0 : 1;
  for (const auto& host : listing->unreachable)
    complain("host " + host.host.to_string() + " does not answer: " + host.problem);
  if (!arguments.actor.empty()) return std::max(code, show_actors(context, meshes, arguments));
  Json json = Json::array();
  for (const auto* mesh : meshes) {
    const auto ref = mesh->ref();
    const auto statuses = !ref ? Result<StatusMesh>(fail(ref.error()))
                          : arguments.wait
                              ? hosts.wait_status(*ref, *arguments.wait,
                                                  {.deadline = arguments.hosts.timeout, .idle = {}})
                              : hosts.statuses(*ref, arguments.hosts.timeout);
    if (!statuses) {
      complain(statuses.error().to_string());
      code = 1;
      continue;
    }
    const auto groups = group(*statuses);
    for (const auto& [status, ranks] : groups) {
      // Whoever waits wants to know whether all went well.
      if (status.kind() == Status::Kind::unknown || (arguments.wait && status.is_failure()))
        code = 1;
    }
    if (arguments.hosts.json) {
      json.push_back(to_json(*mesh, *statuses));
      continue;
    }
    std::cout << mesh->name << "  ";
    print(groups);
    for (const auto& [trouble, ranks] : troubles_of(*mesh))
      std::cout << "; " << to_string(trouble) << ": " << to_string(to_rank_set(ranks));
    std::cout << "\n";
  }
  if (arguments.hosts.json) std::cout << dump(json, 2) << "\n";
  return code;
}

int run(StatusArguments arguments) {
  auto attached = attach_hosts(arguments.hosts, Need::any);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  auto& all = std::get<AttachedHosts>(attached);
  // --timeout is for all of it.
  arguments.hosts.timeout = std::max(arguments.hosts.timeout - all.took, least_time);
  return status(all.context, all.hosts, arguments);
}

Result<void> parse_wait(const std::string& word, std::optional<Status::Kind>& wait) {
  for (const auto kind : {Status::Kind::initializing, Status::Kind::running, Status::Kind::stopping,
                          Status::Kind::stopped}) {
    std::string name(to_string(kind));
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
    if (word == name) wait = kind;
  }
  if (wait) return {};
  return fail(ErrorCode::parse_error,
              "takes initializing, running, stopping or stopped, not '" + word + "'");
}

}  // namespace

void add_status(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<StatusArguments>();
  auto& verb = commands.add(
      app, "status",
      {.meaning = "Show the status of the ranks of meshes, or wait until they have reached one",
       .examples = {"status", "status train --wait running --timeout 2m"},
       .exit_codes = "0; 1 no such mesh, a host that does not answer, or, with --wait, a rank that "
                     "did not get there or failed"},
      [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("MESH", arguments->mesh,
                  "Name of the mesh, with or without its uuid; default: every mesh");
  auto* const actor =
      verb.add_option("--actor", arguments->actor, "The status of the actors of this name")
          ->type_name("NAME");
  add_text(
      verb, "--wait",
      [arguments = arguments.get()](const std::string& word) {
        return parse_wait(word, arguments->wait);
      },
      "Wait, at most for --timeout, until every rank has reached this status or a later one: "
      "initializing, running, stopping, stopped",
      "STATUS")
      ->excludes(actor);
}

}  // namespace meshbus::cli

#include "cli/watch/status_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/selector.h"
#include "cli/support/text_error.h"
#include "cli/support/usage_text.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// How often hosts are asked for a mesh that is not there yet.
constexpr std::chrono::milliseconds kLookAgain{100};

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

Json to_json(const MeshReport& mesh, const Groups& groups) {
  Json troubles = Json::array();
  for (const auto& [trouble, ranks] : troubles_of(mesh))
    troubles.push_back(
        {{"trouble", std::string(to_string(trouble))}, {"ranks", to_string(to_rank_set(ranks))}});
  return {{"mesh", mesh.name},
          {"region", mesh.region.to_string()},
          {"statuses", to_json(groups)},
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

/// Statuses as the listing has them: nothing is waited for that a silent host would have to say.
Result<StatusMesh> listed_statuses(const ReachedHosts& hosts, const MeshReport& mesh,
                                   const ProcMeshRef& ref) {
  std::map<std::uint64_t, Status> known;
  for (const auto& host : hosts.answered()) {
    for (const auto& block : ranks_on(mesh, host)) {
      for (auto rank = block.begin; rank < block.end; ++rank)
        known[rank] = Status(Status::Kind::not_exist);
    }
  }
  for (const auto& rank : mesh.ranks) known[rank.rank] = rank.status();
  std::vector<Status> statuses;
  for (std::uint64_t rank = 0; rank < ref.num_ranks(); ++rank) {
    const auto at = known.find(rank);
    statuses.push_back(at == known.end() ? Status() : at->second);
  }
  return StatusMesh::make(Region(ref.region().extent()), statuses);
}

Result<StatusMesh> statuses_of(const ReachedHosts& hosts, const MeshReport& mesh,
                               const StatusArguments& arguments) {
  const auto ref = mesh.ref();
  if (!ref) return fail(ref.error());
  const auto& part = hosts.parts.front();
  if (arguments.wait)
    return part.wait_status(*ref, *arguments.wait, {.deadline = hosts.left, .idle = {}});
  if (hosts.parts.size() > 1 || hosts.has_silent()) return listed_statuses(hosts, mesh, *ref);
  return part.statuses(*ref, hosts.left);
}

/// The ranks of these groups that are meant.
Groups cut(const Groups& groups, const RankSet& meant) {
  Groups found;
  for (const auto& [status, ranks] : groups) {
    for (const auto rank : ranks) {
      if (is_meant(meant, rank)) found[status].push_back(rank);
    }
  }
  return found;
}

/// Returns the exit code.
int show(const ReachedHosts& hosts, const MeshReport& mesh, const RankSet& meant,
         const StatusArguments& arguments, Json& json) {
  const auto statuses = statuses_of(hosts, mesh, arguments);
  if (!statuses) {
    complain(statuses.error().to_string());
    return kFailed;
  }
  const auto groups = cut(group(*statuses), meant);
  if (arguments.hosts.json) {
    json.push_back(to_json(mesh, groups));
  } else {
    std::cout << mesh.name << "  ";
    print(groups);
    for (const auto& [trouble, ranks] : troubles_of(mesh))
      std::cout << "; " << to_string(trouble) << ": " << to_string(to_rank_set(ranks));
    std::cout << "\n";
  }
  // A wait asks whether all went well.
  return std::any_of(groups.begin(), groups.end(),
                     [&](const auto& one) {
                       return one.first.kind() == Status::Kind::unknown ||
                              (arguments.wait && one.first.is_failure());
                     })
             ? kFailed
             : 0;
}

/// With --wait, a mesh that is not there yet is waited for.
void await_mesh(ReachedHosts& hosts, const std::string& selector) {
  const auto parsed = Selector::parse(selector);
  const auto is_there = [&](const MeshReport& mesh) {
    return mesh.name == parsed->mesh || base_of(mesh.name) == parsed->mesh;
  };
  const auto end = std::chrono::steady_clock::now() + hosts.left;
  while (parsed && hosts.left > kLeastTime &&
         std::none_of(hosts.listing.meshes.begin(), hosts.listing.meshes.end(), is_there)) {
    std::this_thread::sleep_for(kLookAgain);
    std::vector<MeshReport> meshes;
    for (const auto& part : hosts.parts) {
      auto listing = part.meshes(hosts.left);
      if (listing) meshes.insert(meshes.end(), listing->meshes.begin(), listing->meshes.end());
    }
    hosts.listing.meshes = merged(std::move(meshes));
    hosts.left = std::max(
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()),
        kLeastTime);
  }
}

/// Says which hosts had to restart their brokers: their procs live, but something is wrong there.
void complain_of_brokers(const ReachedHosts& hosts) {
  for (const auto& part : hosts.parts) {
    const auto reports = part.states(hosts.left);
    if (!reports) continue;
    for (const auto& host : *reports) {
      if (host.code != ErrorCode::none || host.broker_restarts == 0) continue;
      complain("the broker of " + host.host.to_string() + " " +
               restarts_text(host.broker_restarts,
                             std::chrono::system_clock::now() - host.broker_restarted) +
               "; the procs lived on");
    }
  }
}

int run(StatusArguments arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  if (arguments.wait && !arguments.mesh.empty()) await_mesh(hosts, arguments.mesh);
  arguments.hosts.timeout = hosts.left;
  std::vector<const MeshReport*> meshes;
  RankSet meant;
  if (arguments.mesh.empty()) {
    for (const auto& mesh : hosts.listing.meshes) meshes.push_back(&mesh);
  } else {
    const auto chosen = choose_ranks(hosts.listing, arguments.mesh, Among::all);
    if (chosen.mesh == nullptr) return chosen.code;
    meshes.push_back(chosen.mesh);
    meant = chosen.ranks;
  }
  complain_of_brokers(hosts);
  int code = hosts.has_silent() ? kFailed : 0;
  if (!arguments.actor.empty())
    return std::max(code, show_actors(hosts.context, meshes, arguments));
  Json json = Json::array();
  for (const auto* mesh : meshes) code = std::max(code, show(hosts, *mesh, meant, arguments, json));
  if (arguments.hosts.json) std::cout << dump(json, 2) << "\n";
  return code;
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
  verb.add_option(
      "MESH", arguments->mesh,
      "A mesh, with or without its uuid, or ranks of it: train[0-5,7]; default: every mesh");
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

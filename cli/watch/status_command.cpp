#include "cli/watch/status_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/selector.h"
#include "cli/support/terminal_text.h"
#include "cli/support/text_error.h"
#include "cli/support/unheard_ranks.h"
#include "cli/support/usage_text.h"
#include "cli/watch/status_rows.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

using Clock = std::chrono::steady_clock;

/// How often hosts are asked for a mesh that is not there yet.
constexpr std::chrono::milliseconds kLookAgain{100};
/// What the look after a wait takes at most, also when the wait has taken all the time.
constexpr std::chrono::milliseconds kLastLook{4000};

struct StatusArguments {
  HostChoice hosts;
  /// None: every mesh.
  MeshChoice meshes;
  /// The actors of that name instead of the procs.
  std::string actor;
  std::optional<Status::Kind> wait;
};

/// The ranks of each status, by its order.
using Groups = std::map<Status, std::vector<std::uint64_t>>;

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
int show_actors(Context& context, const std::vector<MeantRanks>& meshes,
                const StatusArguments& arguments) {
  const auto actor = Name::parse(arguments.actor);
  if (!actor) {
    complain(error_words(actor.error().within("--actor")));
    return kUsage;
  }
  int code = 0;
  Json json = Json::array();
  for (const auto& meant : meshes) {
    const auto* const mesh = meant.mesh;
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

std::chrono::milliseconds left_until(Clock::time_point end) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()), kLeastTime);
}

/// Waits until some ranks of a mesh, one after the other, have got there. Errors: those of
/// HostMesh::wait_status().
Result<void> wait_for_block(const HostMesh& hosts, const ProcMeshRef& mesh, const RankBlock& block,
                            Status::Kind status, Clock::time_point end) {
  const auto region = Region::make({"rank"}, block.begin, {block.end - block.begin}, {1});
  if (!region) return fail(region.error());
  const auto slice = mesh.sliced(*region);
  if (!slice) return fail(slice.error());
  const auto waited = hosts.wait_status(*slice, status, {.deadline = left_until(end), .idle = {}});
  if (waited) return {};
  if (waited.error().code() != ErrorCode::timeout) return fail(waited.error());
  // The error names ordinals of the slice.
  const auto ranks = to_string(RankSet{block});
  const auto late = block.end - block.begin == 1 ? "rank " + ranks + " has not reached "
                                                 : "not all of ranks " + ranks + " have reached ";
  return fail(ErrorCode::timeout, "mesh " + mesh.mesh().to_string() + ": " + late +
                                      std::string(to_string(status)) + " in time");
}

/// Waits until the ranks that are meant have got there. Errors: those of HostMesh::wait_status().
Result<void> wait_for(const ReachedHosts& hosts, const MeantRanks& meant, Status::Kind status,
                      Clock::time_point end) {
  const MeshReport& mesh = *meant.mesh;
  const auto ref = mesh.ref();
  if (!ref) return fail(ref.error());
  // A mesh has all its ranks on hosts that reach each other.
  const auto has_it = [&mesh](const HostMesh& part) {
    return std::any_of(part.hosts().begin(), part.hosts().end(), [&mesh](const HostAddr& host) {
      return std::find(mesh.hosts.begin(), mesh.hosts.end(), host) != mesh.hosts.end();
    });
  };
  const auto part = std::find_if(hosts.parts.begin(), hosts.parts.end(), has_it);
  const auto& asked = part == hosts.parts.end() ? hosts.parts.front() : *part;
  if (meant.ranks.empty()) {
    const auto waited = asked.wait_status(*ref, status, {.deadline = left_until(end), .idle = {}});
    return waited ? Result<void>() : Result<void>(fail(waited.error()));
  }
  for (const auto& block : meant.ranks) {
    if (auto waited = wait_for_block(asked, *ref, block, status, end); !waited) return waited;
  }
  return {};
}

/// The ranks of a mesh that are meant, as they stand.
StatusRows rows_of(const ReachedHosts& hosts, const MeantRanks& meant) {
  StatusRows rows;
  for (const auto& rank : meant.mesh->ranks) {
    if (is_meant(meant.ranks, rank.rank)) rows.add(rank);
  }
  for (const auto& unheard : unheard_ranks(hosts, meant)) {
    for (const auto& block : unheard.ranks) {
      for (auto rank = block.begin; rank < block.end; ++rank)
        rows.add_unheard(rank, unheard.has_answered);
    }
  }
  return rows;
}

/// Whether there are hosts, of those that are meant, that were not there before.
bool has_new_host(const HostChoice& choice, const std::vector<HostAddr>& known) {
  const auto found = find_hosts(choice);
  const auto* const hosts = std::get_if<FoundHosts>(&found);
  return hosts != nullptr &&
         std::any_of(hosts->addresses.begin(), hosts->addresses.end(), [&](const HostAddr& host) {
           return std::find(known.begin(), known.end(), host) == known.end();
         });
}

/// With --wait, hosts and a mesh that are not there yet are waited for. Or the exit code; stderr
/// says why.
std::variant<ReachedHosts, int> reach_in_time(const StatusArguments& arguments) {
  if (!arguments.wait) return reach_hosts(arguments.hosts);
  const auto parsed = Selector::parse(arguments.meshes.selector);
  if (!parsed) {
    complain(parsed.error().detail());
    return kUsage;
  }
  auto choice = arguments.hosts;
  const auto end = Clock::now() + choice.timeout;
  while (!has_new_host(choice, {}) && left_until(end) > kLeastTime)
    std::this_thread::sleep_for(kLookAgain);
  auto reached = reach_hosts(choice);
  const auto is_there = [&](const MeshReport& mesh) { return is_named(mesh.name, parsed->mesh); };
  while (auto* const hosts = std::get_if<ReachedHosts>(&reached)) {
    hosts->left = left_until(end);
    const auto& meshes = hosts->listing.meshes;
    if (std::any_of(meshes.begin(), meshes.end(), is_there) || hosts->left <= kLeastTime) break;
    std::this_thread::sleep_for(kLookAgain);
    if (has_new_host(choice, hosts->all_hosts())) {
      choice.timeout = hosts->left;
      reached = reach_hosts(choice);
    } else {
      look_again(*hosts);
    }
  }
  return reached;
}

/// Waits for those ranks until `end`, and lets `meant` be about the meshes as they are then;
/// without those that did not get there. Returns the exit code.
int wait_for_all(ReachedHosts& hosts, std::vector<MeantRanks>& meant, Status::Kind status,
                 Clock::time_point end) {
  int code = 0;
  std::map<std::string, RankSet> arrived;
  for (const auto& one : meant) {
    if (const auto waited = wait_for(hosts, one, status, end); !waited) {
      complain(waited.error().to_string());
      code = kFailed;
    } else {
      arrived.emplace(one.mesh->name, one.ranks);
    }
  }
  hosts.left = kLastLook;
  look_again(hosts);
  if (hosts.has_silent()) code = kFailed;
  meant.clear();
  for (const auto& mesh : hosts.listing.meshes) {
    if (const auto at = arrived.find(mesh.name); at != arrived.end())
      meant.push_back({.mesh = &mesh, .ranks = at->second});
  }
  return code;
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

/// Returns the exit code.
int show(const ReachedHosts& hosts, const std::vector<MeantRanks>& meant,
         const StatusArguments& arguments) {
  std::map<std::string, StatusRows> meshes;
  for (const auto& one : meant) meshes.emplace(one.mesh->name, rows_of(hosts, one));
  if (arguments.hosts.json) {
    Json json = Json::array();
    for (const auto& one : meant) {
      const auto& rows = meshes.at(one.mesh->name);
      json.push_back({{"mesh", one.mesh->name},
                      {"region", one.mesh->region.to_string()},
                      {"statuses", rows.json()},
                      {"troubles", rows.troubles_json()}});
    }
    std::cout << dump(json, 2) << "\n";
  } else if (!meshes.empty()) {
    std::cout << StatusRows::text(meshes, has_colours(STDOUT_FILENO));
  }
  // A wait asks whether all went well.
  return std::any_of(meshes.begin(), meshes.end(),
                     [&](const auto& one) {
                       return one.second.has(Status::Kind::unknown) ||
                              (arguments.wait && one.second.has(Status::Kind::failed));
                     })
             ? kFailed
             : 0;
}

int run(StatusArguments arguments) {
  auto reached = reach_in_time(arguments);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto end = Clock::now() + hosts.left;
  const auto& choice = arguments.meshes;
  arguments.hosts.timeout = hosts.left;
  MeantMeshes meant;
  if (choice.selector.empty()) {
    for (const auto& mesh : hosts.listing.meshes) meant.all.push_back({.mesh = &mesh});
    if (arguments.wait && meant.all.empty()) {
      complain("no mesh came in time");
      return kFailed;
    }
  } else {
    meant = choose_meshes(hosts.listing, choice, Among::all);
    if (meant.all.empty()) return meant.code;
  }
  complain_of_brokers(hosts);
  int code = hosts.has_silent() ? kFailed : 0;
  if (!arguments.actor.empty())
    return std::max(code, show_actors(hosts.context, meant.all, arguments));
  if (arguments.wait) code = std::max(code, wait_for_all(hosts, meant.all, *arguments.wait, end));
  return std::max(code, show(hosts, meant.all, arguments));
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
       .examples = {"status", "status 'train*'", "status train --wait running --timeout 2m"},
       .details = "END says how ranks have ended, RESTARTS how often they were started again. A "
                  "rank that failed, by a signal or by an exit code that is not 0, is Failed; one "
                  "that was stopped on request is Stopped. --wait STATUS also waits for a mesh, "
                  "and for hosts on this machine, that are not there yet.",
       .exit_codes = "0; 1 no such mesh, a host that does not answer, or, with --wait, a rank that "
                     "did not get there or failed"},
      [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  add_mesh_choice(verb, arguments->meshes,
                  "A mesh, with or without its uuid, or ranks of it: train[0-5,7]; 'train*': all "
                  "of that pattern; default: every mesh");
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

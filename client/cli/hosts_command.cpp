#include "client/cli/hosts_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <future>
#include <iomanip>
#include <iostream>
#include <optional>

#include "client/cli/drain_command.h"
#include "client/cli/ping_command.h"
#include "client/cli/rank_json.h"
#include "client/cli/status_command.h"
#include "client/cli/text_error.h"
#include "client/cli/usage_text.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What is left to ask with when finding the hosts has taken all the time.
constexpr std::chrono::milliseconds kLeastTime{200};

Json host_json(const HostReport& host) {
  Json json;
  json["host"] = host.host.to_string();
  json["node"] = host.node;
  json["refused"] = host.refused;
  json["pid"] = host.pid;
  json["version"] = host.version;
  json["containment"] = host.containment;
  json["live"] = host.live;
  json["drains"] = Json::array();
  for (const auto& drain : host.drains) {
    json["drains"].push_back({{"mesh", drain.mesh.empty() ? Json(nullptr) : Json(drain.mesh)},
                              {"owner", drain.owner.empty() ? Json(nullptr) : Json(drain.owner)},
                              {"reason", drain.reason},
                              {"by", drain.requester},
                              {"hold", drain.hold},
                              {"left", drain.left}});
  }
  json["error"] = host.problem.empty() ? Json(nullptr) : Json(host.problem);
  return json;
}

bool is_shown(const RankReport& rank, bool all) {
  return all || !rank.is_terminal();
}

/// CPU, LOAD, RSS, PEAK, THR, FDS of a live rank.
void print_usage(const std::optional<ProcUsage>& usage) {
  const auto column = [](int width, const std::string& text) { std::cout << std::right << std::setw(width) << text; };
  column(12, usage ? cpu_time_text(usage->user_time + usage->system_time) : "-");
  column(8, usage ? load_text(usage->load) : "-");
  column(10, usage ? memory_text(usage->rss_bytes) : "-");
  column(10, usage ? memory_text(usage->peak_rss_bytes) : "-");
  column(6, usage ? std::to_string(usage->threads) : "-");
  column(6, usage && usage->descriptors != 0 ? std::to_string(usage->descriptors) : "-");
  std::cout << "  ";
}

void print_table(const std::vector<HostReport>& hosts, const MeshListing& listing, const HostsArguments& arguments) {
  const bool all = arguments.all;
  for (const auto& host : hosts) {
    std::cout << "host " << host.host << "  ";
    if (host.code != ErrorCode::none) {
      std::cout << "does not answer: " << host.problem << "\n";
    } else {
      std::cout << host.live << " live, agent " << host.pid << " on " << host.node << ", " << host.containment << "\n";
      for (const auto& drain : host.drains) std::cout << "  drained of " << words_of(drain) << "\n";
    }
  }
  for (const auto& mesh : listing.meshes) {
    const auto shown = std::count_if(mesh.ranks.begin(), mesh.ranks.end(), [&](const auto& rank) { return is_shown(rank, all); });
    if (shown == 0) continue;
    std::cout << "\nmesh " << mesh.name << "  " << mesh.region.extent() << "  " << mesh.command << "\n";
    std::cout << "  " << std::left << std::setw(8) << "RANK" << std::setw(24) << "POINT" << std::setw(10) << "PID" << std::setw(10)
              << "STATE";
    if (arguments.wide) {
      std::cout << std::right << std::setw(12) << "CPU" << std::setw(8) << "LOAD" << std::setw(10) << "RSS" << std::setw(10) << "PEAK"
                << std::setw(6) << "THR" << std::setw(6) << "FDS" << "  ";
    }
    std::cout << "WORDS\n";
    for (const auto& rank : mesh.ranks) {
      if (!is_shown(rank, all)) continue;
      std::cout << "  " << std::left << std::setw(8) << rank.rank << std::setw(24) << rank.point << std::setw(10) << rank.pid
                << std::setw(10) << to_string(rank.state);
      if (arguments.wide) print_usage(rank.usage);
      std::cout << (rank.is_terminal() ? rank.words() : "") << "\n";
    }
  }
}

int ps(const HostMesh& mesh, const HostsArguments& arguments) {
  // At once, so that a host that is dead is waited for once.
  auto asked = std::async(std::launch::async, [&] { return mesh.states(arguments.timeout); });
  // In JSON all fields are there always.
  auto listing = mesh.meshes(arguments.timeout, arguments.wide || arguments.json);
  auto hosts = asked.get();
  if (!hosts || !listing) {
    complain((hosts ? listing.error() : hosts.error()).to_string());
    return 1;
  }
  const bool complete = std::all_of(hosts->begin(), hosts->end(), [](const auto& host) { return host.code == ErrorCode::none; });
  if (!arguments.json) {
    print_table(*hosts, *listing, arguments);
    return complete ? 0 : 1;
  }
  Json json;
  json["hosts"] = Json::array();
  for (const auto& host : *hosts) json["hosts"].push_back(host_json(host));
  json["meshes"] = Json::array();
  for (const auto& one : listing->meshes) {
    Json ranks = Json::array();
    for (const auto& rank : one.ranks) {
      if (is_shown(rank, arguments.all)) ranks.push_back(rank_json(rank));
    }
    if (ranks.empty() && !arguments.all) continue;
    json["meshes"].push_back(
        {{"mesh", one.name}, {"region", one.region.to_string()}, {"owner", one.owner}, {"command", one.command}, {"ranks", ranks}});
  }
  std::cout << dump(json, 2) << "\n";
  return complete ? 0 : 1;
}

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

int shutdown(HostMesh& mesh, const HostsArguments& arguments) {
  const auto count = mesh.hosts().size();
  auto summary = mesh.shutdown(arguments.timeout, arguments.grace, "meshbus shutdown");
  if (!summary) {
    complain(summary.error().to_string());
    return 1;
  }
  if (arguments.json) {
    std::cout << dump({{"hosts", summary->hosts}, {"attempted", summary->attempted}, {"ok", summary->ok}, {"failed", summary->failed}})
              << "\n";
  } else {
    std::cout << count << (count == 1 ? " host is" : " hosts are") << " down; " << summary->ok << " of " << summary->attempted
              << " procs ended\n";
  }
  return summary->failed == 0 ? 0 : 1;
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
  auto attached = attach_hosts(said);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  // --timeout is for all of it.
  auto arguments = said;
  arguments.timeout = std::max(arguments.timeout - std::get<AttachedHosts>(attached).took, kLeastTime);
  auto& mesh = std::get<AttachedHosts>(attached).hosts;
  switch (arguments.verb) {
    case HostsArguments::Verb::ps: return ps(mesh, arguments);
    case HostsArguments::Verb::stop: return stop(mesh, arguments);
    case HostsArguments::Verb::shutdown: return shutdown(mesh, arguments);
    case HostsArguments::Verb::status: return status_command(mesh, arguments);
    case HostsArguments::Verb::drain: return drain_command(mesh, arguments);
    case HostsArguments::Verb::ping:
    case HostsArguments::Verb::logs:
    case HostsArguments::Verb::why:
    case HostsArguments::Verb::talk: break;
  }
  return kUsage;
}

}  // namespace meshbus::cli

#include "cli/watch/ps_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <future>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>

#include "cli/support/command.h"
#include "cli/support/drain_text.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "cli/support/usage_text.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct PsArguments {
  HostChoice hosts{.timeout = std::chrono::seconds(10)};
  bool all = false;
  bool wide = false;
};

/// What is on hosts.
struct Seen {
  std::vector<HostReport> hosts;
  std::vector<MeshReport> meshes;
};

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
  const auto column = [](int width, const std::string& text) {
    std::cout << std::right << std::setw(width) << text;
  };
  column(12, usage ? cpu_time_text(usage->user_time + usage->system_time) : "-");
  column(8, usage ? load_text(usage->load) : "-");
  column(10, usage ? memory_text(usage->rss_bytes) : "-");
  column(10, usage ? memory_text(usage->peak_rss_bytes) : "-");
  column(6, usage ? std::to_string(usage->threads) : "-");
  column(6, usage && usage->descriptors != 0 ? std::to_string(usage->descriptors) : "-");
  std::cout << "  ";
}

void print_table(const Seen& seen, const PsArguments& arguments) {
  const bool all = arguments.all;
  for (const auto& host : seen.hosts) {
    std::cout << "host " << host.host << "  ";
    if (host.code != ErrorCode::none) {
      std::cout << "does not answer: " << host.problem << "\n";
    } else {
      std::cout << host.live << " live, agent " << host.pid << " on " << host.node << ", "
                << host.containment << "\n";
      for (const auto& drain : host.drains)
        std::cout << "  drained of " << drain_text(drain) << "\n";
    }
  }
  for (const auto& mesh : seen.meshes) {
    const auto shown = std::count_if(mesh.ranks.begin(), mesh.ranks.end(),
                                     [&](const auto& rank) { return is_shown(rank, all); });
    if (shown == 0) continue;
    std::cout << "\nmesh " << mesh.name << "  " << mesh.region.extent() << "  " << mesh.command
              << "\n";
    std::cout << "  " << std::left << std::setw(8) << "RANK" << std::setw(24) << "POINT"
              << std::setw(10) << "PID" << std::setw(10) << "STATE";
    if (arguments.wide) {
      std::cout << std::right << std::setw(12) << "CPU" << std::setw(8) << "LOAD" << std::setw(10)
                << "RSS" << std::setw(10) << "PEAK" << std::setw(6) << "THR" << std::setw(6)
                << "FDS"
                << "  ";
    }
    std::cout << "WORDS\n";
    for (const auto& rank : mesh.ranks) {
      if (!is_shown(rank, all)) continue;
      std::cout << "  " << std::left << std::setw(8) << rank.rank << std::setw(24) << rank.point
                << std::setw(10) << rank.pid << std::setw(10) << to_string(rank.state);
      if (arguments.wide) print_usage(rank.usage);
      std::cout << (rank.is_terminal() ? rank.words() : "");
      if (rank.trouble != Trouble::none)
        std::cout << to_string(rank.trouble) << ": " << rank.trouble_reason
                  << (rank.restarts > 0 ? "; " : "");
      if (rank.restarts > 0)
        std::cout << (rank.is_terminal() ? "; " : "") << "restart " << rank.restarts;
      std::cout << "\n";
    }
  }
}

Result<Seen> look(Context& context, const FoundHosts& part, const PsArguments& arguments) {
  const auto end = Clock::now() + arguments.hosts.timeout;
  const auto mesh = attach(context, part, arguments.hosts, Need::any);
  if (!mesh) return fail(mesh.error());
  const auto left =
      std::max(std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()), least_time);
  // At once, so that a host that is dead is waited for once.
  auto asked = std::async(std::launch::async, [&] { return mesh->states(left); });
  // In JSON all fields are there always.
  auto listing = mesh->meshes(left, arguments.wide || arguments.hosts.json);
  auto hosts = asked.get();
  if (!hosts) return fail(hosts.error());
  if (!listing) return fail(listing.error());
  return Seen{std::move(*hosts), std::move(listing->meshes)};
}

/// A mesh may be on hosts of several parts.
std::vector<MeshReport> merged(std::vector<MeshReport> meshes) {
  std::map<std::string, MeshReport> by_name;
  for (auto& mesh : meshes) {
    const auto [at, is_new] = by_name.try_emplace(mesh.name, mesh);
    if (is_new) continue;
    auto& ranks = at->second.ranks;
    ranks.insert(ranks.end(), mesh.ranks.begin(), mesh.ranks.end());
    std::sort(ranks.begin(), ranks.end(),
              [](const auto& a, const auto& b) { return a.rank < b.rank; });
  }
  std::vector<MeshReport> all;
  for (auto& [name, mesh] : by_name) all.push_back(std::move(mesh));
  return all;
}

void print_listing(const Seen& seen, bool all) {
  Json json;
  json["hosts"] = Json::array();
  for (const auto& host : seen.hosts) json["hosts"].push_back(host_json(host));
  json["meshes"] = Json::array();
  for (const auto& one : seen.meshes) {
    Json ranks = Json::array();
    for (const auto& rank : one.ranks) {
      if (is_shown(rank, all)) ranks.push_back(rank_json(rank));
    }
    if (ranks.empty() && !all) continue;
    json["meshes"].push_back({{"mesh", one.name},
                              {"region", one.region.to_string()},
                              {"owner", one.owner},
                              {"command", one.command},
                              {"ranks", ranks}});
  }
  std::cout << dump(json, 2) << "\n";
}

int ps(const PsArguments& arguments) {
  const auto found = find_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&found)) return *code;
  if (std::get<FoundHosts>(found).addresses.empty()) {
    if (arguments.hosts.json) {
      print_listing({}, arguments.all);
    } else {
      no_host();
    }
    return 0;
  }
  auto context = std::get<FoundHosts>(found).make_context();
  if (!context) {
    complain(context.error().to_string());
    return kUsage;
  }
  const auto parts = std::get<FoundHosts>(found).parts();
  std::vector<std::future<Result<Seen>>> asked;
  for (const auto& part : parts)
    asked.push_back(
        std::async(std::launch::async, [&] { return look(*context, part, arguments); }));
  Seen all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto seen = asked[i].get();
    if (seen) {
      all.hosts.insert(all.hosts.end(), seen->hosts.begin(), seen->hosts.end());
      all.meshes.insert(all.meshes.end(), seen->meshes.begin(), seen->meshes.end());
    } else if (parts.size() > 1) {
      all.hosts.push_back(silent_host(parts[i].addresses.front(), seen.error()));
    } else {
      complain(seen.error().to_string());
      return 1;
    }
  }
  all.meshes = merged(std::move(all.meshes));
  if (arguments.hosts.json) {
    print_listing(all, arguments.all);
  } else {
    print_table(all, arguments);
  }
  const bool is_complete = std::all_of(all.hosts.begin(), all.hosts.end(), [](const auto& host) {
    return host.code == ErrorCode::none;
  });
  return is_complete ? 0 : 1;
}

}  // namespace

void add_ps(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<PsArguments>();
  auto& verb = commands.add(app, "ps",
                            {.meaning = "List hosts, meshes and procs",
                             .examples = {"ps", "ps --all --wide"},
                             .exit_codes = "0; 1 a host does not answer"},
                            [arguments] { return ps(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_flag("-a,--all", arguments->all, "Also the procs that have ended");
  verb.add_flag("-w,--wide", arguments->wide,
                "Also what each proc uses: CPU time, CPUs just now, memory, its peak, threads, "
                "descriptors");
}

}  // namespace meshbus::cli

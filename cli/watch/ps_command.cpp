#include "cli/watch/ps_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "cli/support/command.h"
#include "cli/support/drain_text.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/table.h"
#include "cli/support/terminal_text.h"
#include "cli/support/text_error.h"
#include "cli/support/upgrade_text.h"
#include "cli/support/usage_text.h"
#include "mesh/text.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

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
  json["broker"] = {
      {"restarts", host.broker_restarts},
      {"restarted",
       host.broker_restarts == 0 ? Json(nullptr) : Json(time_text(host.broker_restarted))}};
  json["roles"] = roles_json(host.roles);
  json["upgrade"] = host.upgrade ? upgrade_json(*host.upgrade) : Json(nullptr);
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
std::vector<std::string> usage_cells(const std::optional<ProcUsage>& usage) {
  if (!usage) return {"-", "-", "-", "-", "-", "-"};
  return {cpu_time_text(usage->user_time + usage->system_time),
          load_text(usage->load),
          memory_text(usage->rss_bytes),
          memory_text(usage->peak_rss_bytes),
          std::to_string(usage->threads),
          usage->descriptors != 0 ? std::to_string(usage->descriptors) : "-"};
}

/// How it ended, what is wrong with it, and how often it was restarted.
std::string words_cell(const RankReport& rank) {
  std::string words = rank.is_terminal() ? rank.words() : "";
  const auto add = [&words](const std::string& more) {
    words += (words.empty() ? "" : "; ") + more;
  };
  if (rank.trouble != Trouble::none)
    add(std::string(to_string(rank.trouble)) + ": " + rank.trouble_reason);
  if (rank.restarts > 0) add("restart " + std::to_string(rank.restarts));
  return words;
}

Table make_table(const MeshReport& mesh, const PsArguments& arguments) {
  std::vector<Table::Column> columns = {
      {"RANK"}, {"POINT"}, {"PID"}, {"STATE", Table::Side::left, colour_of_state}};
  if (arguments.wide) {
    for (const auto* title : {"CPU", "LOAD", "RSS", "PEAK", "THR", "FDS"})
      columns.push_back({title, Table::Side::right});
  }
  columns.push_back({"WORDS"});
  Table table(std::move(columns));
  for (const auto& rank : mesh.ranks) {
    if (!is_shown(rank, arguments.all)) continue;
    std::vector<std::string> cells = {std::to_string(rank.rank), rank.point,
                                      std::to_string(rank.pid), std::string(to_string(rank.state))};
    if (arguments.wide) {
      for (auto& cell : usage_cells(rank.usage)) cells.push_back(std::move(cell));
    }
    cells.push_back(words_cell(rank));
    table.add(std::move(cells));
  }
  return table;
}

void print_table(const Seen& seen, const PsArguments& arguments) {
  const bool all = arguments.all;
  for (const auto& host : seen.hosts) {
    std::cout << "host " << host.host << "  ";
    if (host.code != ErrorCode::none) {
      std::cout << text::visible(problem_words(host)) << "\n";
    } else {
      std::cout << host.live << " live, agent " << host.pid << " on " << text::visible(host.node)
                << ", " << host.containment << "\n";
      if (host.broker_restarts > 0)
        std::cout << "  its broker "
                  << restarts_text(host.broker_restarts,
                                   std::chrono::system_clock::now() - host.broker_restarted)
                  << "; the procs lived on\n";
      for (const auto& line : upgrade_lines(host)) std::cout << "  " << text::visible(line) << "\n";
      for (const auto& drain : host.drains)
        std::cout << "  drained of " << text::visible(drain_text(drain)) << "\n";
    }
  }
  for (const auto& mesh : seen.meshes) {
    const auto shown = std::count_if(mesh.ranks.begin(), mesh.ranks.end(),
                                     [&](const auto& rank) { return is_shown(rank, all); });
    if (shown == 0) continue;
    std::cout << "\nmesh " << mesh.name << "  " << mesh.region.extent() << "  "
              << text::visible(mesh.command) << "\n"
              << make_table(mesh, arguments).text("  ", has_colours(STDOUT_FILENO));
  }
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
    complain(error_words(context.error()));
    return kUsage;
  }
  // In JSON all fields are there always.
  const auto asked = ask_hosts(*context, std::get<FoundHosts>(found), arguments.hosts,
                               arguments.wide || arguments.hosts.json);
  Seen all;
  for (const auto& host : asked) {
    all.hosts.push_back(host.report);
    const auto& meshes = host.listing.meshes;
    all.meshes.insert(all.meshes.end(), meshes.begin(), meshes.end());
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

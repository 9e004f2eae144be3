#include "cli/mesh/stop_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/mesh/mesh_order.h"
#include "cli/mesh/stop_report.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StopArguments {
  HostChoice hosts;
  MeshChoice meshes;
  std::optional<std::chrono::milliseconds> grace;
};

/// What became of the ranks that were meant.
struct Stopped {
  std::vector<RankReport> ranks;
  /// What was not done, in words.
  std::vector<std::string> problems;
};

/// What the hosts say of a mesh whose stop failed.
std::vector<RankReport> ask_again(const HostMesh& hosts, const std::string& mesh) {
  const auto listing = hosts.meshes(std::chrono::seconds(2));
  for (std::size_t i = 0; listing && i < listing->meshes.size(); ++i) {
    if (listing->meshes[i].name == mesh) return listing->meshes[i].ranks;
  }
  return {};
}

struct StopOrder {
  std::vector<RankReport> ranks;
  std::optional<Error> error;
};

Stopped stop(ReachedHosts& hosts, const MeantRanks& meant, const StopArguments& arguments) {
  const auto& mesh = *meant.mesh;
  StopOptions options;
  options.reason = "meshbus stop";
  options.grace = arguments.grace;
  options.deadline = hosts.left;
  options.ranks = meant.ranks;
  const auto act = [&](HostMesh& part) -> Result<StopOrder> {
    auto ranks = part.stop_mesh(mesh.name, options);
    if (ranks) return StopOrder{std::move(*ranks), {}};
    if (ranks.error().code() == ErrorCode::not_exist) return StopOrder();
    return StopOrder{ask_again(part, mesh.name), ranks.error()};
  };
  const auto orders = act_on_all<StopOrder>(hosts, act, hosts_of(meant));
  Stopped stopped;
  for (const auto& order : orders) {
    if (!order.outcome) {
      const auto host = order.hosts.front();
      stopped.problems.push_back(named(ranks_on(meant, host)) + " on host " + host.to_string() +
                                 " not stopped: the host does not answer");
      continue;
    }
    if (order.outcome->error) stopped.problems.push_back(order.outcome->error->to_string());
    for (const auto& rank : order.outcome->ranks) {
      if (is_meant(meant.ranks, rank.rank)) stopped.ranks.push_back(rank);
    }
  }
  const auto others = not_asked(hosts, meant);
  stopped.problems.insert(stopped.problems.end(), others.begin(), others.end());
  if (const auto left = report_stop(mesh, stopped.ranks).unkillable; !left.empty())
    stopped.problems.push_back("not even SIGKILL ended " + named(left));
  std::sort(stopped.ranks.begin(), stopped.ranks.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return stopped;
}

int run(const StopArguments& arguments) {
  if (const auto code = check_order(arguments.meshes)) return *code;
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = choose_for_order(hosts, arguments.meshes, "stop");
  const auto stopped = act_on_each<Stopped>(
      meant.all, [&](const MeantRanks& one) { return stop(hosts, one, arguments); });
  Json json = Json::array();
  int code = meant.code;
  for (std::size_t i = 0; i < stopped.size(); ++i) {
    const auto& mesh = *meant.all[i].mesh;
    for (const auto& problem : stopped[i].problems) complain(mesh.name + ": " + problem);
    if (!stopped[i].problems.empty()) code = kFailed;
    if (arguments.hosts.json) {
      Json ranks = Json::array();
      for (const auto& rank : stopped[i].ranks) ranks.push_back(rank_json(rank));
      json.push_back({{"mesh", mesh.name}, {"ranks", ranks}, {"not_done", stopped[i].problems}});
    } else if (const auto report = report_stop(mesh, stopped[i].ranks);
               report.ended > 0 || stopped[i].problems.empty()) {
      std::cout << "stopped " << mesh.name << ": " << report.text() << "\n";
    }
  }
  if (arguments.hosts.json && (code == 0 || !json.empty())) std::cout << dump(json, 2) << "\n";
  return code;
}

}  // namespace

void add_stop(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<StopArguments>();
  auto& verb =
      commands.add(app, "stop",
                   {.meaning = "Stop meshes, or some of their ranks",
                    .examples = {"stop train", "stop 'train[0-3]' --grace 2s", "stop 'train-*'",
                                 "stop --all --yes"},
                    .exit_codes = "0 all ranks that were meant have ended; 1 no such mesh, a rank "
                                  "that has not ended, or a host of the mesh that does not answer "
                                  "or is not among these hosts"},
                   [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  add_mesh_order(verb, arguments->meshes,
                 "A live mesh, with or without its uuid, or ranks of it: train[0-5,7]; 'train*': "
                 "all of that pattern");
  add_grace(verb, arguments->grace);
}

}  // namespace meshbus::cli

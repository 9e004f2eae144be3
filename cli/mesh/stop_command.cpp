#include "cli/mesh/stop_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include "cli/mesh/stop_report.h"
#include "cli/support/choose_mesh.h"
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
  std::string mesh;
  std::optional<std::chrono::milliseconds> grace;
};

/// What became of the ranks that were meant.
struct Stopped {
  std::vector<RankReport> ranks;
  /// What was not done, in words.
  std::vector<std::string> problems;
  bool is_complete = true;
};

RankSet common_ranks(const RankSet& all, const RankSet& meant) {
  std::vector<std::uint64_t> both;
  for (const auto& block : all) {
    for (auto rank = block.begin; rank < block.end; ++rank) {
      if (is_meant(meant, rank)) both.push_back(rank);
    }
  }
  return to_rank_set(both);
}

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
  const auto orders = act_on_all<StopOrder>(hosts, [&](HostMesh& part) -> Result<StopOrder> {
    auto ranks = part.stop_mesh(mesh.name, options);
    if (ranks) return StopOrder{std::move(*ranks), {}};
    if (ranks.error().code() == ErrorCode::not_exist) return StopOrder();
    return StopOrder{ask_again(part, mesh.name), ranks.error()};
  });
  Stopped stopped;
  std::set<HostAddr> asked;
  const auto leave = [&stopped](std::string problem) {
    stopped.problems.push_back(std::move(problem));
    stopped.is_complete = false;
  };
  for (const auto& order : orders) {
    asked.insert(order.hosts.begin(), order.hosts.end());
    if (!order.outcome) {
      const auto ranks = common_ranks(ranks_on(mesh, order.hosts.front()), meant.ranks);
      if (!ranks.empty())
        leave(named(ranks) + " on host " + order.hosts.front().to_string() +
              " not stopped: the host does not answer");
      continue;
    }
    if (order.outcome->error) leave(order.outcome->error->to_string());
    for (const auto& rank : order.outcome->ranks) {
      if (is_meant(meant.ranks, rank.rank)) stopped.ranks.push_back(rank);
    }
  }
  for (const auto& host : std::set<HostAddr>(mesh.hosts.begin(), mesh.hosts.end())) {
    const auto ranks = common_ranks(ranks_on(mesh, host), meant.ranks);
    if (!asked.contains(host) && !ranks.empty())
      stopped.problems.push_back(named(ranks) + " on host " + host.to_string() +
                                 " not asked: it is not among these hosts");
  }
  if (const auto left = report_stop(mesh, stopped.ranks).unkillable; !left.empty())
    leave("not even SIGKILL ended " + named(left));
  std::sort(stopped.ranks.begin(), stopped.ranks.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return stopped;
}

int run(const StopArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = choose_ranks(hosts.listing, arguments.mesh, Among::live);
  if (meant.mesh == nullptr) return meant.code;
  const auto stopped = stop(hosts, meant, arguments);
  for (const auto& problem : stopped.problems) complain(meant.mesh->name + ": " + problem);
  if (arguments.hosts.json) {
    Json ranks = Json::array();
    for (const auto& rank : stopped.ranks) ranks.push_back(rank_json(rank));
    const Json mesh = {
        {"mesh", meant.mesh->name}, {"ranks", ranks}, {"not_done", stopped.problems}};
    std::cout << dump(Json::array({mesh}), 2) << "\n";
  } else if (const auto report = report_stop(*meant.mesh, stopped.ranks);
             report.ended > 0 || stopped.is_complete) {
    std::cout << "stopped " << meant.mesh->name << ": " << report.text() << "\n";
  }
  return stopped.is_complete ? 0 : kFailed;
}

}  // namespace

void add_stop(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<StopArguments>();
  auto& verb =
      commands.add(app, "stop",
                   {.meaning = "Stop a mesh, or some of its ranks",
                    .examples = {"stop train", "stop 'train[0-3]' --grace 2s"},
                    .exit_codes = "0 all ranks have ended; 1 no such mesh, a rank that has "
                                  "not ended, or a host that does not answer"},
                   [arguments] { return run(*arguments); });
  add_host_choice(verb, arguments->hosts);
  verb.add_option("RANKS", arguments->mesh,
                  "A live mesh, with or without its uuid, or ranks of it: train[0-5,7]")
      ->required();
  add_grace(verb, arguments->grace);
}

}  // namespace meshbus::cli

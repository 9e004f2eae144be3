#include "cli/mesh/signal_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "cli/mesh/mesh_order.h"
#include "cli/mesh/stop_report.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "client/src/base/parse_signal.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "common/base/quantity.h"
#include "common/wire/wire_values.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::cli {
namespace {

struct SignalArguments {
  HostChoice hosts;
  MeshChoice meshes;
  int signal = 0;
};

/// The ranks that are meant on that host: those that live, as it says, or, when it is silent, those
/// that have not ended as far as others know.
RankSet to_tell(const ReachedHosts& hosts, const MeantRanks& meant, const HostAddr& host) {
  const auto& silent = hosts.listing.unreachable;
  const bool is_silent = std::any_of(silent.begin(), silent.end(),
                                     [&host](const auto& one) { return one.host == host; });
  std::map<std::uint64_t, bool> is_live;
  for (const auto& rank : meant.mesh->ranks) is_live[rank.rank] = !rank.is_terminal();
  std::vector<std::uint64_t> ranks;
  for (const auto& block : ranks_on(meant, host)) {
    for (auto rank = block.begin; rank < block.end; ++rank) {
      const auto at = is_live.find(rank);
      if (at == is_live.end() ? is_silent : at->second) ranks.push_back(rank);
    }
  }
  return to_rank_set(ranks);
}

/// What came of it for a mesh.
struct Signalled {
  std::vector<std::uint64_t> ranks;
  /// What was not done, in words.
  std::vector<std::string> problems;
};

/// Tells all hosts of a part at once.
Signalled tell(ReachedHosts& hosts, const HostMesh& part, const MeantRanks& meant, int signal) {
  struct Order {
    HostAddr host;
    RankSet ranks;
    ConnectionUse way;
    Connection::Answer answer;
  };
  std::vector<Order> orders;
  Signalled told;
  const auto problem = [&told](const HostAddr& host, const Error& error) {
    told.problems.push_back("host " + host.to_string() + ": " + error.to_string());
  };
  const auto& core = hosts.context.core();
  for (const auto& host : part.hosts()) {
    const auto ranks = to_tell(hosts, meant, host);
    if (ranks.empty()) continue;
    auto way = core->find_connection(core, host);
    if (!way) {
      problem(host, way.error());
      continue;
    }
    wire::SignalProcsT order;
    order.mesh = meant.mesh->name;
    order.ranks = to_wire(ranks);
    order.signal = static_cast<std::uint8_t>(signal);
    order.requester = (*way)->self();
    auto answer = (*way)->ask(Destination::to_agent(host), std::move(order), hosts.left);
    orders.push_back({host, ranks, std::move(*way), std::move(answer)});
  }
  for (auto& order : orders) {
    if (const auto answer = order.answer.get(); !answer) {
      problem(order.host, answer.error());
      continue;
    }
    for (const auto& block : order.ranks) {
      for (auto rank = block.begin; rank < block.end; ++rank) told.ranks.push_back(rank);
    }
  }
  return told;
}

Signalled send(ReachedHosts& hosts, const MeantRanks& meant, int signal) {
  const auto orders = act_on_all<Signalled>(
      hosts, [&](HostMesh& part) -> Result<Signalled> { return tell(hosts, part, meant, signal); },
      [&](const HostAddr& host) { return !to_tell(hosts, meant, host).empty(); });
  Signalled all;
  for (const auto& order : orders) {
    if (!order.outcome) {
      const auto host = order.hosts.front();
      all.problems.push_back(named(to_tell(hosts, meant, host)) + " on host " + host.to_string() +
                             " not told: the host does not answer");
      continue;
    }
    const auto& [ranks, problems] = *order.outcome;
    all.ranks.insert(all.ranks.end(), ranks.begin(), ranks.end());
    all.problems.insert(all.problems.end(), problems.begin(), problems.end());
  }
  const auto others = not_asked(hosts, meant);
  all.problems.insert(all.problems.end(), others.begin(), others.end());
  if (all.ranks.empty() && all.problems.empty())
    all.problems.emplace_back("none of these ranks is alive");
  std::sort(all.ranks.begin(), all.ranks.end());
  return all;
}

int run(const SignalArguments& arguments) {
  if (const auto code = check_order(arguments.meshes)) return *code;
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant =
      choose_for_order(hosts, arguments.meshes, "send " + signal_name(arguments.signal) + " to");
  const auto signalled = act_on_each<Signalled>(
      meant.all, [&](const MeantRanks& one) { return send(hosts, one, arguments.signal); });
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  int code = meant.code;
  for (std::size_t i = 0; i < signalled.size(); ++i) {
    const auto& name = meant.all[i].mesh->name;
    for (const auto& problem : signalled[i].problems) complain(name + ": " + problem);
    if (!signalled[i].problems.empty()) code = kFailed;
    json.push_back({{"mesh", name},
                    {"signal", arguments.signal},
                    {"ranks", to_string(to_rank_set(signalled[i].ranks))},
                    {"not_done", signalled[i].problems}});
  }
  if (arguments.hosts.json && (code == 0 || !json.empty())) std::cout << dump(json, 2) << "\n";
  return code;
}

}  // namespace

void add_signal(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<SignalArguments>();
  auto& verb = commands.add(
      app, "signal",
      {.meaning = "Send a signal to the process groups of ranks",
       .examples = {"signal USR1 train", "signal STOP 'train[0-3]'", "signal USR1 'train-*'"},
       .exit_codes = "0 all hosts were told; 1 no such mesh, no live rank, or a host of the mesh "
                     "that does not answer or is not among these hosts"},
      [arguments] { return run(*arguments); });
  add_text(
      verb, "SIGNAL",
      [arguments = arguments.get()](const std::string& text) -> Result<void> {
        const auto signal = parse_signal(text);
        if (!signal) return fail(signal.error());
        arguments->signal = *signal;
        return {};
      },
      "USR1, HUP, 10, ...", "")
      ->required();
  add_mesh_order(verb, arguments->meshes,
                 "A live mesh, with or without its uuid, or ranks of it: train[0-5,7]; 'train*': "
                 "all of that pattern");
  add_host_choice(verb, arguments->hosts);
}

}  // namespace meshbus::cli

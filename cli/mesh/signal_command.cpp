#include "cli/mesh/signal_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cctype>
#include <csignal>
#include <iostream>
#include <memory>
#include <set>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "client/src/connection.h"
#include "client/src/context_core.h"
#include "client/src/proc_mesh/wire_reports.h"
#include "common/base/quantity.h"
#include "common/wire/wire_values.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::cli {
namespace {

struct SignalArguments {
  HostChoice hosts;
  std::string mesh;
  int signal = 0;
};

/// "USR1", "SIGUSR1", "10". Errors: parse_error.
Result<int> parse_signal(const std::string& text) {
  std::string word = text;
  for (auto& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (word.starts_with("SIG")) word.erase(0, 3);
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const name = ::sigabbrev_np(signal);
    if (word == std::to_string(signal) || (name != nullptr && word == name)) return signal;
  }
  return fail(ErrorCode::parse_error,
              "'" + text + "' is no signal: use a name like USR1, HUP or STOP, or a number");
}

/// The ranks of these that live.
RankSet live_ranks(const MeshReport& mesh, const RankSet& meant) {
  std::vector<std::uint64_t> live;
  for (const auto& rank : mesh.ranks) {
    if (!rank.is_terminal() && is_meant(meant, rank.rank)) live.push_back(rank.rank);
  }
  return to_rank_set(live);
}

/// Tells each host, all at once. Returns what was not done.
std::vector<std::string> send(ReachedHosts& hosts, const MeshReport& mesh, const RankSet& ranks,
                              int signal) {
  struct Order {
    HostAddr host;
    ConnectionUse way;
    Connection::Answer answer;
  };
  std::vector<Order> orders;
  std::vector<std::string> problems;
  const auto& core = hosts.context.core();
  std::set<HostAddr> silent;
  for (const auto& host : hosts.listing.unreachable) silent.insert(host.host);
  for (const auto& host : std::set<HostAddr>(mesh.hosts.begin(), mesh.hosts.end())) {
    const auto there = live_ranks(mesh, ranks);
    RankSet here;
    for (const auto& block : ranks_on(mesh, host)) {
      for (auto rank = block.begin; rank < block.end; ++rank) {
        if (contains(there, rank)) here.push_back({rank, rank + 1});
      }
    }
    if (silent.contains(host)) {
      problems.push_back("host " + host.to_string() + " was not told: it does not answer");
      continue;
    }
    if (here.empty()) continue;
    auto way = core->find_connection(core, host);
    if (!way) {
      problems.push_back("host " + host.to_string() + ": " + way.error().to_string());
      continue;
    }
    wire::SignalProcsT order;
    order.mesh = mesh.name;
    order.ranks = to_wire(here);
    order.signal = static_cast<std::uint8_t>(signal);
    auto answer = (*way)->ask(Destination::to_agent(host), std::move(order), hosts.left);
    orders.push_back({host, std::move(*way), std::move(answer)});
  }
  for (auto& order : orders) {
    if (const auto answer = order.answer.get(); !answer)
      problems.push_back("host " + order.host.to_string() + ": " + answer.error().to_string());
  }
  return problems;
}

int run(const SignalArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = choose_ranks(hosts.listing, arguments.mesh, Among::live);
  if (meant.mesh == nullptr) return meant.code;
  const auto ranks = live_ranks(*meant.mesh, meant.ranks);
  if (ranks.empty()) {
    complain(meant.mesh->name + ": none of these ranks is alive");
    return kFailed;
  }
  const auto problems = send(hosts, *meant.mesh, meant.ranks, arguments.signal);
  for (const auto& problem : problems) complain(meant.mesh->name + ": " + problem);
  if (arguments.hosts.json)
    std::cout << dump({{"mesh", meant.mesh->name},
                       {"signal", arguments.signal},
                       {"ranks", to_string(ranks)},
                       {"not_done", problems}},
                      2)
              << "\n";
  return problems.empty() ? 0 : kFailed;
}

}  // namespace

void add_signal(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<SignalArguments>();
  auto& verb = commands.add(
      app, "signal",
      {.meaning = "Send a signal to the process groups of ranks",
       .examples = {"signal USR1 train", "signal STOP 'train[0-3]'"},
       .exit_codes = "0 all hosts were told; 1 no such mesh, no live rank, or a host that was not"},
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
  verb.add_option("RANKS", arguments->mesh,
                  "A mesh, with or without its uuid, or ranks of it: train[0-5,7]")
      ->required();
  add_host_choice(verb, arguments->hosts);
}

}  // namespace meshbus::cli

#include "cli/mesh/mesh_order.h"

#include <unistd.h>

#include <iostream>
#include <set>

#include "cli/mesh/stop_report.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

/// Asks on the terminal. Anything but yes is a no.
bool is_agreed(const std::string& question) {
  std::cerr << "meshbus: " << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

std::optional<int> check_order(const MeshChoice& choice) {
  if (!choice.is_all && choice.selector.empty()) {
    complain("no mesh is named: give one, a pattern like 'train-*', or --all");
    return kUsage;
  }
  if (choice.is_all && !choice.is_sure && ::isatty(STDIN_FILENO) == 0) {
    complain("--all needs --yes where there is no terminal to ask on");
    return kUsage;
  }
  return std::nullopt;
}

MeantMeshes choose_for_order(const ReachedHosts& hosts, const MeshChoice& choice,
                             const std::string& verb) {
  auto meant = choose_meshes(hosts.listing, choice, Among::live);
  if (!choice.is_all || choice.is_sure || meant.all.empty()) return meant;
  std::vector<const MeshReport*> meshes;
  for (const auto& one : meant.all) meshes.push_back(one.mesh);
  const auto count = meshes.size() == 1 ? "this mesh" : std::to_string(meshes.size()) + " meshes";
  if (is_agreed(verb + " " + count + ": " + listed(meshes) + "?")) return meant;
  complain("nothing was done");
  return {.code = kFailed};
}

std::function<bool(const HostAddr&)> hosts_of(const MeantRanks& meant) {
  return [&meant](const HostAddr& host) { return !ranks_on(meant, host).empty(); };
}

std::vector<std::string> not_asked(const ReachedHosts& hosts, const MeantRanks& meant) {
  std::vector<std::string> problems;
  std::set<HostAddr> others(meant.mesh->hosts.begin(), meant.mesh->hosts.end());
  for (const auto& host : hosts.all_hosts()) others.erase(host);
  for (const auto& host : others) {
    if (const auto ranks = ranks_on(meant, host); !ranks.empty())
      problems.push_back(named(ranks) + " on host " + host.to_string() +
                         " not asked: it is not among these hosts");
  }
  return problems;
}

}  // namespace meshbus::cli

#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/support/choose_mesh.h"
#include "cli/support/reach.h"

/// What commands that act on meshes have in common: they act on every host that they are for and
/// that answers, and say for each other one what was not done.
namespace meshbus::cli {

/// What is wrong with a choice before any host is asked. The exit code; stderr says why.
std::optional<int> check_order(const MeshChoice& choice);

/// The live meshes that are meant. With --all on a terminal somebody is asked; `verb` begins the
/// question: "stop", "signal".
MeantMeshes choose_for_order(const ReachedHosts& hosts, const MeshChoice& choice,
                             const std::string& verb);

/// Which silent hosts an order on these ranks is tried on again: those that have some.
std::function<bool(const HostAddr&)> hosts_of(const MeantRanks& meant);

/// "rank 1 on host tcp:h2:7420 not asked: it is not among these hosts", for each host of the mesh
/// that the command is not for.
std::vector<std::string> not_asked(const ReachedHosts& hosts, const MeantRanks& meant);

/// `act` on each mesh, many at once; what came of each, in the same order.
template <typename Outcome>
std::vector<Outcome> act_on_each(const std::vector<MeantRanks>& meant,
                                 const std::function<Outcome(const MeantRanks&)>& act) {
  constexpr std::size_t kAtOnce = 16;
  std::vector<Outcome> outcomes;
  while (outcomes.size() < meant.size()) {
    std::vector<std::future<Outcome>> orders;
    for (auto i = outcomes.size(); i < meant.size() && orders.size() < kAtOnce; ++i)
      orders.push_back(std::async(std::launch::async, act, std::cref(meant[i])));
    for (auto& order : orders) outcomes.push_back(order.get());
  }
  return outcomes;
}

}  // namespace meshbus::cli

#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/support/command.h"
#include "cli/support/reach.h"

namespace meshbus::cli {

/// --hosts, --hostfile, --context and --timeout of commands that work beside ranks.
void add_hand_hosts(CLI::App& verb, HostChoice& hosts);

/// Live ranks that were chosen for such a command.
struct HandRanks {
  ReachedHosts hosts;
  MeshReport mesh;
  std::vector<RankReport> ranks;

  /// "train[3]", for people.
  std::string name_of(const RankReport& rank) const;
};
/// `text`: MESH, MESH:RANKS or a selector. Otherwise the exit code; stderr says why.
std::variant<HandRanks, int> choose_hand_ranks(const HostChoice& hosts, const std::string& text);

}  // namespace meshbus::cli

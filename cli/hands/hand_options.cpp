#include "cli/hands/hand_options.h"

#include <CLI/CLI.hpp>

#include "cli/hands/rank_text.h"
#include "cli/support/choose_mesh.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "common/config/config.h"

namespace meshbus::cli {

void add_hand_hosts(CLI::App& verb, HostChoice& choice) {
  add_hosts(verb, choice.said,
            "Addresses of hosts, also as ranges like tcp:h[1-4]:7420; default: MESHBUS_HOSTS, else "
            "the context in use, else all your hosts on this machine",
            "ADDRESS,...");
  add_duration(
      verb, "--timeout",
      [&choice](std::chrono::milliseconds time) {
        choice.timeout = time;
        choice.is_timeout_given = true;
      },
      "Give up finding the hosts after this time; default 30s");
}

std::string HandRanks::name_of(const RankReport& rank) const {
  return base_of(mesh.name) + "[" + std::to_string(rank.rank) + "]";
}

std::variant<HandRanks, int> choose_hand_ranks(const HostChoice& choice, const std::string& text) {
  // The exit codes of commands beside ranks are their own.
  const auto own = [](int code) { return code == kUsage ? kUsage : kOwnFailure; };
  auto reached = reach_hosts(choice);
  if (const int* code = std::get_if<int>(&reached)) return own(*code);
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = choose_ranks(hosts.listing, to_selector(text), Among::live);
  if (meant.mesh == nullptr) return own(meant.code);
  HandRanks chosen{std::move(hosts), *meant.mesh, {}};
  std::size_t ended = 0;
  for (const auto& rank : chosen.mesh.ranks) {
    if (!is_meant(meant.ranks, rank.rank)) continue;
    if (!rank.is_terminal())
      chosen.ranks.push_back(rank);
    else
      ++ended;
  }
  if (!chosen.ranks.empty()) return chosen;
  complain(text + ": none of these ranks is " + (ended > 0 ? "alive" : "on a host that answers"));
  return kOwnFailure;
}

}  // namespace meshbus::cli

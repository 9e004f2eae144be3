#include "cli/chaos/chaos_targets.h"

#include <algorithm>
#include <optional>

#include "cli/support/choose_mesh.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Type = ChaosTarget::Type;

/// False: stderr says why.
bool add_ranks(const ReachedHosts& hosts, const std::string& selector,
               std::vector<ChaosTarget>& targets) {
  const auto meant = choose_ranks(hosts.listing, selector, Among::live);
  if (meant.mesh == nullptr) return false;
  const auto answered = hosts.answered();
  const auto before = targets.size();
  for (const auto& rank : meant.mesh->ranks) {
    if (rank.is_terminal() || !is_meant(meant.ranks, rank.rank)) continue;
    if (std::find(answered.begin(), answered.end(), rank.host) == answered.end()) continue;
    ChaosTarget target{
        .type = Type::rank, .host = rank.host, .mesh = meant.mesh->name, .rank = rank.rank};
    if (std::find(targets.begin(), targets.end(), target) == targets.end())
      targets.push_back(std::move(target));
  }
  if (targets.size() == before) complain("no rank of " + selector + " is alive on these hosts");
  return targets.size() != before;
}

bool add_roles(const ReachedHosts& hosts, const std::string& roles,
               std::vector<ChaosTarget>& targets) {
  for (std::size_t begin = 0; begin < roles.size();) {
    const auto end = std::min(roles.find(',', begin), roles.size());
    const auto role = roles.substr(begin, end - begin);
    begin = end + 1;
    if (role != "agent" && role != "broker") {
      complain("--roles: '" + role + "' is no role that can be disturbed: agent or broker" +
               (role == "keeper" ? " (a keeper takes its ranks along)" : ""));
      return false;
    }
    for (const auto& host : hosts.answered())
      targets.push_back({.type = Type::role, .host = host, .role = role});
  }
  return true;
}

/// A host of ours; nothing: stderr says why.
std::optional<HostAddr> find_host(const std::vector<HostAddr>& hosts, const std::string& text) {
  const auto host = HostAddr::parse(text);
  if (!host) {
    complain("--links: " + error_words(host.error()));
    return std::nullopt;
  }
  if (std::find(hosts.begin(), hosts.end(), *host) == hosts.end()) {
    complain("--links: " + text + " is not among these hosts, or does not answer");
    return std::nullopt;
  }
  return *host;
}

bool add_link(const ReachedHosts& hosts, const std::string& link,
              std::vector<ChaosTarget>& targets) {
  const auto answered = hosts.answered();
  if (link == "all") {
    for (std::size_t i = 0; i < answered.size(); ++i) {
      for (std::size_t j = i + 1; j < answered.size(); ++j)
        targets.push_back({.type = Type::link, .host = answered[i], .peer = answered[j]});
    }
    if (answered.size() < 2) complain("--links: there are no two hosts that answer");
    return answered.size() >= 2;
  }
  const auto comma = link.find(',');
  if (comma == std::string::npos) {
    complain("--links: '" + link + "' is not two hosts, like tcp:h1:7420,tcp:h2:7420");
    return false;
  }
  const auto one = find_host(answered, link.substr(0, comma));
  const auto other = one ? find_host(answered, link.substr(comma + 1)) : std::nullopt;
  if (!one || !other) return false;
  if (*one == *other) {
    complain("--links: a host has no link to itself");
    return false;
  }
  targets.push_back({.type = Type::link, .host = *one, .peer = other});
  return true;
}

}  // namespace

std::vector<ChaosTarget> find_chaos_targets(const ReachedHosts& hosts, const ChaosChoice& choice) {
  std::vector<ChaosTarget> targets;
  for (const auto& selector : choice.ranks) {
    if (!add_ranks(hosts, selector, targets)) return {};
  }
  if (!add_roles(hosts, choice.roles, targets)) return {};
  for (const auto& link : choice.links) {
    if (!add_link(hosts, link, targets)) return {};
  }
  if (choice.has_disks) {
    for (const auto& host : hosts.answered()) targets.push_back({.type = Type::disk, .host = host});
  }
  return targets;
}

}  // namespace meshbus::cli

#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/support/find_hosts.h"
#include "cli/support/mesh_listings.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// The hosts that a command is for, after each was asked by itself and all at once: a dead one
/// makes no command slow, and keeps it from nothing on the others.
struct ReachedHosts {
  Context context;
  /// The hosts that answered at first, in groups that can be asked together. Never empty.
  std::vector<HostMesh> parts;
  /// What is on them. `unreachable`: the hosts that did not answer.
  MeshListing listing;
  /// What is left of --timeout.
  std::chrono::milliseconds left;
  /// The settings of the context that names the hosts.
  std::vector<std::pair<std::string, std::string>> settings;

  /// Those that answered the last time that they were asked.
  std::vector<HostAddr> answered() const;
  /// Every host that was asked, also those that did not answer.
  std::vector<HostAddr> all_hosts() const;
  bool has_silent() const { return !listing.unreachable.empty(); }
};

/// Asks them. A host has the whole --timeout when it was given, or when no host answers sooner;
/// otherwise a second beyond the first answers. stderr names those that did not answer. Returns the
/// exit code when there is none to go on with.
std::variant<ReachedHosts, int> reach_hosts(const HostChoice& choice, ContextOptions options = {});

/// The same host by host, for commands that show each.
struct AskedHost {
  HostReport report;
  MeshListing listing = {};
};
/// By address. `with_usage`: also what live ranks use.
std::vector<AskedHost> ask_hosts(Context& context, const FoundHosts& hosts,
                                 const HostChoice& choice, bool with_usage);

/// A host that did not answer, tried once more. Errors: those of HostMesh::attach().
Result<HostMesh> reach_again(ReachedHosts& hosts, const HostAddr& host);

/// Asks the hosts that answered at first what is on them by now, for hosts.left at most. stderr
/// names those that do not answer any more.
void look_again(ReachedHosts& hosts);

/// What came of an order on hosts.
template <typename Outcome>
struct Acted {
  std::vector<HostAddr> hosts;
  /// It did not answer before; `outcome` says whether it does now.
  bool was_silent = false;
  Result<Outcome> outcome;
};
/// Gives an order to all parts at once, and to each silent host that answers after all.
/// `is_concerned`: which of the silent hosts are tried again; nothing: all of them.
template <typename Outcome>
std::vector<Acted<Outcome>> act_on_all(
    ReachedHosts& hosts, const std::function<Result<Outcome>(HostMesh&)>& act,
    const std::function<bool(const HostAddr&)>& is_concerned = nullptr) {
  std::vector<std::future<Acted<Outcome>>> orders;
  for (auto& part : hosts.parts)
    orders.push_back(std::async(std::launch::async, [&part, &act] {
      return Acted<Outcome>{part.hosts(), false, act(part)};
    }));
  for (const auto& silent : hosts.listing.unreachable) {
    if (is_concerned && !is_concerned(silent.host)) continue;
    orders.push_back(std::async(std::launch::async, [&hosts, &act, host = silent.host] {
      auto mesh = reach_again(hosts, host);
      return Acted<Outcome>{{host}, true, mesh ? act(*mesh) : Result<Outcome>(fail(mesh.error()))};
    }));
  }
  std::vector<Acted<Outcome>> all;
  for (auto& order : orders) all.push_back(order.get());
  return all;
}

/// Says on stderr that a host does not answer, and what follows from it.
void complain_of(const HostReport& host, const std::string& consequence = {});

}  // namespace meshbus::cli

#include "client/src/host_mesh/gateway_search.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <optional>
#include <set>

#include "client/src/base/time_left.h"
#include "client/src/host_mesh/host_mesh_impl.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// Why nobody can connect to that address, if so. Blocks for a second at most, and for as long as a
/// name takes to be found.
std::optional<Error> find_problem(const ContextCore& core, const HostAddr& host) {
  if (host.is_any() || host.is_wildcard())
    return Error(ErrorCode::configuration_error, "that is no address to connect to");
  // A host that is starting listens before it announces itself. And a session would
  // ask for a name that cannot be found again and again.
  if (const auto listens = probe(core.ways().find(host).socket.value_or(host)); !listens) {
    if (listens.error().code() == ErrorCode::unauthorised) return listens.error();
    const auto& why = listens.error().detail();
    if (host.transport() == Transport::unix_socket && why.ends_with(std::strerror(EACCES)))
      return Error(ErrorCode::host_unreachable, "it belongs to another user (" + why + ")");
    const bool has_no_address = why.starts_with("cannot find ");
    return Error(ErrorCode::host_unreachable,
                 has_no_address ? why : "nothing listens there (" + why + ")");
  }
  return std::nullopt;
}

/// Adds what is wrong with sockets of this machine: these are looked at in no time.
void look_at_sockets(const ContextCore& core, const std::set<HostAddr>& hosts,
                     std::map<HostAddr, Error>& problems) {
  for (const auto& host : hosts) {
    if (host.transport() == Transport::tcp && !host.is_any() && !host.is_wildcard()) continue;
    if (auto problem = find_problem(core, host)) problems.emplace(host, std::move(*problem));
  }
}

}  // namespace

GatewaySearch find_gateway(const std::shared_ptr<ContextCore>& core,
                           const std::vector<HostAddr>& hosts, std::chrono::milliseconds deadline) {
  // The first one alone for a while: it nearly always answers, and each connection is work for a
  // broker.
  constexpr std::chrono::milliseconds first_alone{1000};
  constexpr std::size_t at_once = 8;
  constexpr std::chrono::milliseconds a_while{5};
  GatewaySearch search;
  const auto end = Clock::now() + deadline;
  look_at_sockets(*core, {hosts.begin(), hosts.end()}, search.problems);
  std::vector<HostAddr> candidates;
  for (const auto& host : hosts) {
    if (candidates.size() == at_once) break;
    if (!search.problems.contains(host) &&
        std::find(candidates.begin(), candidates.end(), host) == candidates.end())
      candidates.push_back(host);
  }
  std::vector<ConnectionUse> tried;
  for (std::size_t begin = 0; begin < candidates.size();) {
    // One, then all others.
    const auto stop = begin == 0 ? 1 : candidates.size();
    std::vector<std::future<std::optional<Error>>> looks;
    for (auto i = begin; i < stop; ++i)
      looks.push_back(
          std::async(std::launch::async, find_problem, std::cref(*core), candidates[i]));
    for (auto i = begin; i < stop; ++i) {
      if (auto problem = looks[i - begin].get()) {
        search.problems.emplace(candidates[i], std::move(*problem));
      } else {
        tried.push_back(core->connect(core, candidates[i]));
      }
    }
    if (begin == 0 && tried.size() == 1 &&
        tried.front()->wait_up(std::min(first_alone, deadline))) {
      search.connection = std::move(tried.front());
      return search;
    }
    begin = stop;
  }
  // Whichever is up first: one that says nothing must not take the time of the others.
  while (!tried.empty()) {
    const bool is_over = Clock::now() >= end;
    for (auto at = tried.begin(); at != tried.end();) {
      const auto up = (*at)->wait_up(is_over ? std::chrono::milliseconds(1) : a_while);
      if (up) {
        search.connection = std::move(*at);
        return search;
      }
      // A refusal is final.
      if (!is_over && up.error().code() == ErrorCode::host_unreachable) {
        ++at;
        continue;
      }
      search.problems.emplace(core->run([&] { return (*at)->gateway().host(); }), up.error());
      at = tried.erase(at);
    }
  }
  return search;
}

GatewaySearch find_way(const std::shared_ptr<ContextCore>& core, const std::vector<HostAddr>& hosts,
                       std::chrono::milliseconds deadline) {
  GatewaySearch way;
  way.connection = core->visit([&] {
    for (const auto& host : hosts) {
      const auto best = core->best_connection(host);
      if (best && best->is_known && best->connection->gateway().is_up())
        return ConnectionUse(core, best->connection);
    }
    return ConnectionUse();
  });
  if (way.connection.get() != nullptr) {
    look_at_sockets(*core, {hosts.begin(), hosts.end()}, way.problems);
    return way;
  }
  way = find_gateway(core, hosts, deadline / 2);
  if (way.connection.get() != nullptr) return way;
  if (auto any = core->find_connection(core, hosts.front())) way.connection = std::move(*any);
  return way;
}

}  // namespace meshbus

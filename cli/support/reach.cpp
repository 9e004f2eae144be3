#include "cli/support/reach.h"

#include <algorithm>
#include <future>
#include <optional>
#include <set>

#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kAtOnce = 64;
/// A host that is slower than this, while others answer, counts as one that does not answer.
constexpr milliseconds kFirstAsk{1000};
/// For a host that did not answer, while an order is carried out on the others.
constexpr milliseconds kLastChance{4000};

/// A host that was asked, and the connection to it.
struct Reached {
  AskedHost asked;
  std::optional<HostMesh> mesh = {};
};

milliseconds left_of(Clock::time_point end) {
  return std::max(std::chrono::ceil<milliseconds>(end - Clock::now()), milliseconds(50));
}

Reached reach_one(Context& context, const HostAddr& host, milliseconds limit, bool with_usage) {
  const auto end = Clock::now() + limit;
  auto mesh = HostMesh::attach(context, "host", {host}, {.deadline = limit, .require_all = false});
  if (!mesh) return {{silent_host(host, mesh.error())}};
  Reached reached{{}, std::move(*mesh)};
  auto states = std::async(std::launch::async, [&] { return reached.mesh->states(left_of(end)); });
  auto listing = reached.mesh->meshes(left_of(end), with_usage);
  const auto state = states.get();
  if (!state || !listing) return {{silent_host(host, state ? listing.error() : state.error())}};
  reached.asked.report = state->front();
  // The host may have gone between its two answers.
  if (!listing->unreachable.empty() && reached.asked.report.code == ErrorCode::none)
    reached.asked.report = listing->unreachable.front();
  reached.asked.listing = std::move(*listing);
  return reached;
}

std::map<HostAddr, Reached> reach_all(Context& context, const std::set<HostAddr>& hosts,
                                      milliseconds limit, bool with_usage) {
  std::map<HostAddr, Reached> all;
  for (auto next = hosts.begin(); next != hosts.end();) {
    std::vector<std::pair<HostAddr, std::future<Reached>>> asked;
    for (; next != hosts.end() && asked.size() < kAtOnce; ++next)
      asked.emplace_back(
          *next, std::async(std::launch::async, [&context, host = *next, limit, with_usage] {
            return reach_one(context, host, limit, with_usage);
          }));
    for (auto& [host, reached] : asked) all.emplace(host, reached.get());
  }
  return all;
}

bool has_answered(const std::pair<const HostAddr, Reached>& one) {
  return one.second.asked.report.code == ErrorCode::none;
}

std::map<HostAddr, Reached> reach(Context& context, const FoundHosts& hosts,
                                  const HostChoice& choice, bool with_usage) {
  const std::set<HostAddr> distinct(hosts.addresses.begin(), hosts.addresses.end());
  const auto end = Clock::now() + choice.timeout;
  const bool is_patient = choice.is_timeout_given || distinct.size() == 1;
  auto all =
      reach_all(context, distinct,
                is_patient ? choice.timeout : std::min(kFirstAsk, choice.timeout), with_usage);
  if (is_patient || std::any_of(all.begin(), all.end(), has_answered)) return all;
  // None is there to compare with: perhaps this machine is slow.
  return reach_all(context, distinct, left_of(end), with_usage);
}

/// The connections in groups that can be asked together.
Result<std::vector<HostMesh>> join(Context& context, const FoundHosts& found,
                                   std::map<HostAddr, Reached>& all, const HostChoice& choice) {
  std::vector<HostMesh> parts;
  for (auto part : found.parts()) {
    std::erase_if(part.addresses,
                  [&](const HostAddr& host) { return !has_answered(*all.find(host)); });
    if (part.addresses.empty()) continue;
    if (part.addresses.size() == 1) {
      parts.push_back(std::move(*all.at(part.addresses.front()).mesh));
      continue;
    }
    auto mesh = attach(context, part, choice, Need::any);
    if (!mesh) return fail(mesh.error());
    parts.push_back(std::move(*mesh));
  }
  return parts;
}

}  // namespace

std::vector<HostAddr> ReachedHosts::answered() const {
  std::vector<HostAddr> hosts;
  for (const auto& part : parts)
    hosts.insert(hosts.end(), part.hosts().begin(), part.hosts().end());
  std::erase_if(hosts, [&](const HostAddr& host) { return is_silent(listing, host); });
  return hosts;
}

std::vector<HostAddr> ReachedHosts::all_hosts() const {
  auto hosts = answered();
  for (const auto& host : listing.unreachable) hosts.push_back(host.host);
  return hosts;
}

void look_again(ReachedHosts& hosts) {
  MeshListing now;
  std::set<HostAddr> asked;
  for (const auto& part : hosts.parts) {
    asked.insert(part.hosts().begin(), part.hosts().end());
    const auto listing = part.meshes(hosts.left);
    if (listing) {
      now.meshes.insert(now.meshes.end(), listing->meshes.begin(), listing->meshes.end());
      now.unreachable.insert(now.unreachable.end(), listing->unreachable.begin(),
                             listing->unreachable.end());
      continue;
    }
    for (const auto& host : part.hosts())
      now.unreachable.push_back(silent_host(host, listing.error()));
  }
  for (const auto& silent : now.unreachable) {
    if (!is_silent(hosts.listing, silent.host)) complain_of(silent);
  }
  for (const auto& silent : hosts.listing.unreachable) {
    if (!asked.contains(silent.host)) now.unreachable.push_back(silent);
  }
  hosts.listing = renewed(std::move(hosts.listing), std::move(now));
}

Result<HostMesh> reach_again(ReachedHosts& hosts, const HostAddr& host) {
  const auto limit = std::min(hosts.left, kLastChance);
  return HostMesh::attach(hosts.context, "host", {host}, {.deadline = limit});
}

void complain_of(const HostReport& host, const std::string& consequence) {
  if (!is_silence(host.code)) {
    complain("host " + host.host.to_string() + ": " + host.problem);
    return;
  }
  complain("host " + host.host.to_string() + " " + problem_words(host) +
           (consequence.empty() ? "" : "; " + consequence));
}

std::vector<AskedHost> ask_hosts(Context& context, const FoundHosts& hosts,
                                 const HostChoice& choice, bool with_usage) {
  auto all = reach(context, hosts, choice, with_usage);
  std::vector<AskedHost> asked;
  std::set<HostAddr> seen;
  for (const auto& host : hosts.addresses) {
    if (seen.insert(host).second) asked.push_back(std::move(all.at(host).asked));
  }
  return asked;
}

std::variant<ReachedHosts, int> reach_hosts(const HostChoice& choice, ContextOptions options) {
  const auto end = Clock::now() + choice.timeout;
  auto found = find_hosts(choice);
  if (const int* code = std::get_if<int>(&found)) return *code;
  auto& hosts = std::get<FoundHosts>(found);
  if (hosts.addresses.empty()) return no_host();
  auto context = hosts.make_context(std::move(options));
  if (!context) {
    complain(error_words(context.error()));
    return kUsage;
  }
  auto all = reach(*context, hosts, choice, /*with_usage=*/false);
  MeshListing listing;
  for (auto& [host, reached] : all) {
    auto& meshes = reached.asked.listing.meshes;
    listing.meshes.insert(listing.meshes.end(), meshes.begin(), meshes.end());
    if (reached.asked.report.code == ErrorCode::none) continue;
    // --hosts was just typed; any other source is worth a word.
    auto& report = listing.unreachable.emplace_back(reached.asked.report);
    if (!hosts.source.empty() && choice.said.list.empty())
      report.problem += " (it is named in " + hosts.source + ")";
    complain_of(report);
  }
  listing.meshes = merged(std::move(listing.meshes));
  auto parts = join(*context, hosts, all, choice);
  if (!parts) {
    complain(error_words(parts.error()));
    return kFailed;
  }
  if (parts->empty()) return kFailed;
  return ReachedHosts{std::move(*context), std::move(*parts), std::move(listing),
                      std::max(left_of(end), kLeastTime), hosts.settings};
}

}  // namespace meshbus::cli

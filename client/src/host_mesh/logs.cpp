#include "meshbus/logs.h"

#include <algorithm>
#include <map>

#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/gateway_search.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/monitors/log_feed.h"

namespace meshbus {

class LogStream::Impl {
 public:
  Impl(ConnectionUse connection, std::shared_ptr<LogFeed> feed)
      : connection_(std::move(connection)), feed_(std::move(feed)) {}
  ~Impl() {
    if (!connection_.core()->check_process()) return;  // a forked child
    feed_->shut();
    connection_.core()->post([connection = connection_.get(), feed = feed_] {
      feed->stop();
      connection->updates().remove(*feed);
    });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  ConnectionUse connection_;
  std::shared_ptr<LogFeed> feed_;
};

LogStream::LogStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogStream::LogStream(LogStream&&) noexcept = default;
LogStream& LogStream::operator=(LogStream&&) noexcept = default;
LogStream::~LogStream() = default;

namespace {

/// The create ranks of a view.
RankSet log_ranks_of(const ProcMeshRef& mesh) {
  if (mesh.num_ranks() == mesh.root_ranks())
    return mesh.root_ranks() == 0 ? RankSet() : RankSet{{0, mesh.root_ranks()}};
  std::vector<std::uint64_t> ranks;
  for (std::uint64_t ordinal = 0; ordinal < mesh.num_ranks(); ++ordinal)
    ranks.push_back(*mesh.create_rank(ordinal));
  std::sort(ranks.begin(), ranks.end());
  return to_rank_set(ranks);
}

/// The ranks to read, by host. Errors: configuration_error, not_exist.
Result<std::vector<LogFeed::Place>> log_places_of(const ProcMeshRef& mesh, LogOptions& options) {
  const auto name = mesh.mesh().to_string();
  if (!options.out && !options.err)
    return fail(ErrorCode::configuration_error, "logs: neither stdout nor stderr is wanted");
  if (options.ranks.empty()) options.ranks = log_ranks_of(mesh);
  for (const RankBlock& block : options.ranks) {
    if (block.end > mesh.root_ranks() || block.begin >= block.end)
      return fail(ErrorCode::not_exist,
                  "mesh " + name + " has no rank " +
                      std::to_string(std::max(block.begin, mesh.root_ranks())) +
                      (mesh.root_ranks() == 0
                           ? "; it has none"
                           : "; its ranks are " + to_string(RankSet{{0, mesh.root_ranks()}})));
  }
  // Each host is asked for its own ranks.
  std::map<HostAddr, RankSet> by_host;
  for (std::uint64_t host = 0; host < mesh.hosts().size(); ++host) {
    const auto own = mesh.block_of(host);
    if (!own) continue;
    for (const RankBlock& block : options.ranks) {
      const RankBlock both{std::max(block.begin, own->begin), std::min(block.end, own->end)};
      if (both.begin < both.end) by_host[mesh.hosts()[host]].push_back(both);
    }
  }
  std::vector<LogFeed::Place> places;
  for (auto& [host, ranks] : by_host) places.push_back({host, std::move(ranks)});
  if (places.empty()) return fail(ErrorCode::not_exist, "mesh " + name + " has no ranks");
  return places;
}

Result<LogStream> open_stream(ConnectionUse use, const std::string& mesh,
                              std::vector<LogFeed::Place> places, LogOptions options,
                              LogHandlers handlers) {
  const auto& core = use.core();
  std::vector<HostAddr> hosts;
  for (const auto& place : places) hosts.push_back(place.host);
  auto feed =
      std::make_shared<LogFeed>(mesh, std::move(places), std::move(options), std::move(handlers),
                                core->handlers(), core->config().duration(keys::delivery_limit));
  auto* const connection = use.get();
  const bool is_open = core->run([&] {
    if (connection->gateway().bus() == nullptr) return false;
    connection->hosts().add(hosts);
    connection->updates().add(feed);
    return true;
  });
  if (!is_open) return fail(ErrorCode::host_unreachable, "the connection to the hosts is closed");
  return LogStream(std::make_unique<LogStream::Impl>(std::move(use), std::move(feed)));
}

}  // namespace

Result<LogStream> HostMesh::logs(const MeshReport& mesh, LogOptions options,
                                 LogHandlers handlers) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  const auto name = Name::parse(mesh.name);
  if (!name) return fail(name.error().within("logs"));
  const auto ref = ProcMeshRef::make(*name, mesh.hosts, mesh.region.num_ranks(), mesh.region);
  if (!ref) return fail(ref.error().within("logs of " + mesh.name));
  auto places = log_places_of(*ref, options);
  if (!places) return fail(places.error());
  for (const auto& [host, ranks] : *places) {
    if (std::find(hosts().begin(), hosts().end(), host) == hosts().end())
      return fail(ErrorCode::host_unreachable,
                  "ranks " + to_string(ranks) + " of " + mesh.name + " are on host " +
                      host.to_string() + ", which is not among the hosts that were named");
  }
  return open_stream(impl_->use(), mesh.name, std::move(*places), std::move(options),
                     std::move(handlers));
}

Result<LogStream> LogStream::open(Context& context, const ProcMeshRef& mesh, LogOptions options,
                                  LogHandlers handlers, std::chrono::milliseconds deadline) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  const auto name = mesh.mesh().to_string();
  auto places = log_places_of(mesh, options);
  if (!places) return fail(places.error());
  std::vector<HostAddr> hosts;
  for (const auto& place : *places) hosts.push_back(place.host);
  auto way = find_way(core, hosts, Calls::clamp(deadline));
  for (const auto& host : hosts) {
    const auto problem = way.problems.find(host);
    if (problem != way.problems.end())
      return fail(problem->second.within("logs of " + name + ": host " + host.to_string()));
  }
  if (way.connection.get() == nullptr)
    return fail(ErrorCode::host_unreachable, "logs of " + name + ": no way to its hosts");
  return open_stream(std::move(way.connection), name, std::move(*places), std::move(options),
                     std::move(handlers));
}

}  // namespace meshbus

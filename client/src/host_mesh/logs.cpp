#include "meshbus/logs.h"

#include <algorithm>
#include <map>

#include "client/src/context/check_owner.h"
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

Result<LogStream> HostMesh::logs(const MeshReport& mesh, LogOptions options,
                                 LogHandlers handlers) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (!options.out && !options.err)
    return fail(ErrorCode::configuration_error, "logs: neither stdout nor stderr is wanted");
  const auto name = Name::parse(mesh.name);
  if (!name) return fail(name.error().within("logs"));
  const auto ref = ProcMeshRef::make(*name, mesh.hosts, mesh.region.num_ranks(), mesh.region);
  if (!ref) return fail(ref.error().within("logs of " + mesh.name));
  std::vector<std::uint64_t> wanted;
  if (options.ranks.empty()) options.ranks = {{0, ref->root_ranks()}};
  for (const RankBlock& block : options.ranks) {
    if (block.end > ref->root_ranks() || block.begin >= block.end)
      return fail(ErrorCode::not_exist,
                  "mesh " + mesh.name + " has no rank " +
                      std::to_string(std::max(block.begin, ref->root_ranks())) +
                      (ref->root_ranks() == 0
                           ? "; it has none"
                           : "; its ranks are " + to_string(RankSet{{0, ref->root_ranks()}})));
  }
  // Each host is asked for its own ranks.
  std::map<HostAddr, RankSet> by_host;
  for (std::uint64_t host = 0; host < mesh.hosts.size(); ++host) {
    const auto own = ref->block_of(host);
    if (!own) continue;
    for (const RankBlock& block : options.ranks) {
      const RankBlock both{std::max(block.begin, own->begin), std::min(block.end, own->end)};
      if (both.begin < both.end) by_host[mesh.hosts[host]].push_back(both);
    }
  }
  std::vector<LogFeed::Place> places;
  for (auto& [host, ranks] : by_host) {
    if (std::find(hosts().begin(), hosts().end(), host) == hosts().end())
      return fail(ErrorCode::host_unreachable,
                  "ranks " + to_string(ranks) + " of " + mesh.name + " are on host " +
                      host.to_string() + ", which is not among the hosts that were named");
    places.push_back({host, std::move(ranks)});
  }
  if (places.empty()) return fail(ErrorCode::not_exist, "mesh " + mesh.name + " has no ranks");
  auto feed = std::make_shared<LogFeed>(mesh.name, std::move(places), std::move(options),
                                        std::move(handlers), impl_->core()->handlers(),
                                        impl_->core()->config().duration(keys::delivery_limit));
  auto use = impl_->use();
  auto* const connection = use.get();
  const bool is_open = impl_->core()->run([connection, feed] {
    if (connection->gateway().bus() == nullptr) return false;
    connection->updates().add(feed);
    return true;
  });
  if (!is_open) return fail(ErrorCode::host_unreachable, "the connection to the hosts is closed");
  return LogStream(std::make_unique<LogStream::Impl>(std::move(use), std::move(feed)));
}

}  // namespace meshbus

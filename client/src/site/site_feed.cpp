#include "client/src/site/site_feed.h"

#include <algorithm>
#include <set>
#include <utility>

namespace meshbus {
namespace {

/// We ask this many hosts within one period.
constexpr std::size_t kHostsPerPeriod = 200;

}  // namespace

SiteFeed::SiteFeed(Reactor& reactor, Options options, std::function<void()> on_change)
    : table_(options.hosts, options.site, std::chrono::system_clock::now()),
      on_change_(std::move(on_change)) {
  const std::set<HostAddr> hosts(options.hosts.begin(), options.hosts.end());
  const auto share =
      std::max<std::size_t>(1, (hosts.size() + kHostsPerPeriod - 1) / kHostsPerPeriod);
  for (const auto& host : hosts)
    feeds_.emplace(
        host, std::make_unique<HostFeed>(reactor, table_,
                                         HostFeed::Options{.host = host,
                                                           .period = options.site.period * share,
                                                           .limit = options.site.limit,
                                                           .reach = options.reach},
                                         [this] { on_change_(); }));
}

void SiteFeed::request(const HostAddr& host, const ControlBody& body,
                       std::chrono::milliseconds limit, const Bus::Answer& answer) {
  feeds_.at(host)->request(body, limit, answer);
}

}  // namespace meshbus

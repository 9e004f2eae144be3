#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <zmq.hpp>

#include "client/src/site/host_feed.h"
#include "client/src/site/site_table.h"
#include "common/loop/reactor.h"

namespace meshbus {

/// A site as it is seen from one reactor: the table, and a HostFeed for each host. For programs
/// that have a reactor of their own; others use Site. Lives on the reactor's thread.
class SiteFeed {
 public:
  struct Options {
    std::vector<HostAddr> hosts;
    SiteOptions site = {};
    /// Writes into the options of a session how to come to the broker of a host.
    std::function<void(const HostAddr&, Session::Options&)> reach;
  };
  /// `on_change`: called in the turn in which something may have changed; see
  /// SiteTable::sequence().
  SiteFeed(Reactor& reactor, zmq::context_t& context, Options options,
           std::function<void()> on_change);
  SiteFeed(const SiteFeed&) = delete;
  SiteFeed& operator=(const SiteFeed&) = delete;

  const SiteTable& table() const noexcept { return table_; }

 private:
  SiteTable table_;
  std::function<void()> on_change_;
  std::vector<std::unique_ptr<HostFeed>> feeds_;
};

}  // namespace meshbus

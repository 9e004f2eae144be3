#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "client/src/site/host_feed.h"
#include "client/src/site/site_table.h"
#include "common/bus/bus.h"
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
  SiteFeed(Reactor& reactor, Options options, std::function<void()> on_change);
  SiteFeed(const SiteFeed&) = delete;
  SiteFeed& operator=(const SiteFeed&) = delete;

  const SiteTable& table() const noexcept { return table_; }
  /// Asks the agent of a host, on the connection that it is watched on. `answer` is called once,
  /// never from inside this call, and not after the end of this object. The host is one of
  /// Options::hosts. Errors: those of Bus::request().
  void request(const HostAddr& host, const ControlBody& body, std::chrono::milliseconds limit,
               const Bus::Answer& answer);

 private:
  SiteTable table_;
  std::function<void()> on_change_;
  std::map<HostAddr, std::unique_ptr<HostFeed>> feeds_;
};

}  // namespace meshbus

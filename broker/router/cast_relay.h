#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "broker/access/recent_set.h"
#include "broker/casts/relayed_casts.h"
#include "broker/links/link_table.h"
#include "broker/observe/counters.h"
#include "broker/router/router.h"
#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "wire/forward.h"
#include "wire/relay_generated.h"

namespace meshbus {

/// Sends the bodies of large casts by a tree of hosts, and passes on those of other hosts
/// (relay.fbs). Lives on the reactor's thread.
class CastRelay {
 public:
  struct Options {
    /// Hosts that a body is sent to by one host.
    std::size_t width = 16;
    std::chrono::milliseconds delivery_limit{30000};
  };
  CastRelay(Reactor& reactor, Router& router, LinkTable& links, Counters& counters,
            Options options);
  ~CastRelay();
  CastRelay(const CastRelay&) = delete;
  CastRelay& operator=(const CastRelay&) = delete;

  /// Sends a body on its way by a tree of those hosts that take part. The number of the cast; 0 =
  /// the body is to be sent to each host.
  std::uint64_t send(const std::vector<std::uint64_t>& hosts, MessagePart& body);
  /// Whether the body of that cast is on its way to that host.
  bool is_under_way(std::uint64_t number, std::uint64_t host) const {
    return casts_.is_under_way(number, host);
  }
  /// The host has the body, or does not need it any more.
  void done(std::uint64_t number, std::uint64_t host);
  /// The broker of that host names the hosts that the next body of that number is for, too.
  void expect(std::uint64_t number, std::uint64_t from, Bytes pass_on);
  /// A body has come from that host: passes it on as expect() says.
  void pass_on(std::uint64_t number, std::uint64_t from, MessagePart& body);
  /// Tells that host's broker that the body of a cast of its own is here.
  void confirm(std::uint64_t number, std::uint64_t host);

 private:
  /// The hosts that the next body of that number is to be passed on to.
  struct Expected {
    std::uint64_t number = 0;
    std::vector<HostAddr> hosts = {};
  };
  /// Sends a body to these hosts, by at most `width` of them.
  void spread(std::uint64_t number, const std::vector<HostAddr>& hosts, MessagePart& body);
  /// False when there is no room.
  bool tell(Link& link, wire::RelayPort what, std::uint64_t number, Bytes body,
            MessagePart* detached);
  bool send_body(Link& link, std::uint64_t number, MessagePart& body);
  void arm_timer();

  Reactor& reactor_;
  Router& router_;
  LinkTable& links_;
  Counters& counters_;
  Options options_;
  RelayedCasts casts_;
  /// By the key of the host that said so.
  RecentSet<std::uint64_t, Expected> expected_{64};
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus

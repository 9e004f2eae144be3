#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "broker/links/link_table.h"
#include "broker/observe/counters.h"
#include "broker/peers/connection_table.h"
#include "broker/router/cast_receiver.h"
#include "broker/router/router.h"
#include "broker/transport/listener.h"
#include "common/loop/reactor.h"
#include "wire/lifecycle_generated.h"
#include "wire/monitor_generated.h"

namespace meshbus {

/// What the monitor and the tap are told of the broker as a whole. Lives on the reactor's thread.
class BrokerReport {
 public:
  BrokerReport(const Reactor& reactor, const Listener& listener, const ConnectionTable& connections,
               const Router& router, const LinkTable& links, const CastReceiver& casts,
               const Counters& counters)
      : reactor_(reactor),
        listener_(listener),
        connections_(connections),
        router_(router),
        links_(links),
        casts_(casts),
        counters_(counters) {}

  Counters counters() const;
  /// Messages that are queued here at this moment.
  std::size_t held() const;
  wire::BrokerCountersT counters_event() const;
  /// Peers that have taken nothing for so long of what waits for them; most bytes first.
  std::vector<wire::QueueStateT> queues(std::chrono::milliseconds waits) const;
  /// The same for those that ask for it (wire::GetHost).
  wire::BrokerStateT state() const;
  /// The text of the key of a peer or host, or nothing.
  std::string name_of(std::uint64_t key) const;

 private:
  const Reactor& reactor_;
  const Listener& listener_;
  const ConnectionTable& connections_;
  const Router& router_;
  const LinkTable& links_;
  const CastReceiver& casts_;
  const Counters& counters_;
};

}  // namespace meshbus

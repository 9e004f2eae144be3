#pragma once

#include <functional>

#include <zmq.hpp>

#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus::metrics {

/// Listens to the counters that a broker publishes at its monitor socket. A broker that starts
/// again is heard again. Lives on the reactor's thread.
class BrokerListener {
 public:
  using OnCounters =
      std::function<void(std::uint64_t incarnation, const wire::BrokerCountersT& counters)>;

  BrokerListener(Reactor& reactor, zmq::context_t& context, const HostAddr& monitor,
                 OnCounters on_counters);
  ~BrokerListener();
  BrokerListener(const BrokerListener&) = delete;
  BrokerListener& operator=(const BrokerListener&) = delete;

 private:
  bool on_messages();

  Reactor& reactor_;
  zmq::socket_t socket_;
  OnCounters on_counters_;
};

}  // namespace meshbus::metrics

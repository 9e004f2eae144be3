#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/observe/counters.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "common/security/keys.h"
#include "common/security/token.h"
#include "common/wire/protocol.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace zmq {
class context_t;
}

namespace meshbus {

/// What a broker is started with.
struct BrokerOptions {
  /// Where it listens, at least one; port 0 and an empty path mean any.
  std::vector<HostAddr> binds;
  /// Under what name its host is known (spec 2.2); without it, the first of `binds`. With port 0:
  /// the port of the first tcp bind.
  std::optional<HostAddr> advertise;
  /// Where ZeroMQ tools may listen to it (schemas/monitor.fbs): a unix address.
  std::optional<HostAddr> monitor;
  /// Where copies of messages may be had (Tap): a unix address.
  std::optional<HostAddr> tap;
  /// For tcp connections (spec 13.1). They are looked at again and again while the broker runs.
  std::optional<KeyDirectory> keys;
  /// Take and make tcp connections that nothing protects, whether there are keys or not
  /// (spec 13.1).
  bool insecure = false;
  /// By the warden's secret. Without it agents and procs are refused: nobody can have made a token
  /// for them.
  std::optional<TokenMaker> tokens;
  /// 0: drawn.
  std::uint64_t incarnation = 0;
  /// How long a message waits for the first connection to its host.
  std::chrono::milliseconds link_connect_limit{5000};
  /// A connection that has said no Hello after so long is closed.
  std::chrono::milliseconds hello_limit{10000};
  Config config;
  /// What it says that it speaks.
  Protocol protocol = {};
  /// And that it can do (Hello.capabilities, Welcome.capabilities); less than all: as an older
  /// release.
  std::uint64_t capabilities = kCapabilities;
};

/// One host's broker: registers peers, and brings messages from one to another and to other hosts'
/// brokers. It reads envelopes, and the bodies of messages to itself (schemas/bus.fbs); nothing
/// else.
///
/// Lives on the reactor's thread: make it, use it and destroy it there. Set ZMQ_MAX_SOCKETS of
/// `context` high enough for one socket per other host. Reactor and context must outlive it.
class Broker {
 public:
  /// Errors: configuration_error (binds and advertised address do not fit, tcp without `insecure`
  /// or keys, keys that cannot be used), io_error (an address is in use).
  static Result<std::unique_ptr<Broker>> start(Reactor& reactor, zmq::context_t& context,
                                               BrokerOptions options);
  /// Drops all connections at once; what is queued is lost. See stop().
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// The address that its host is known by, concrete.
  const HostAddr& address() const noexcept;
  /// Where it listens, concrete, in the order of BrokerOptions::binds.
  const std::vector<HostAddr>& binds() const noexcept;
  std::uint64_t incarnation() const noexcept;
  /// Registered peers, inbound links included.
  std::size_t peers() const noexcept;
  Counters counters() const;
  /// Messages that are queued here at this moment.
  std::size_t held() const;

  /// Says Bye to all peers and sends what is queued as far as it goes at once. Destroying it
  /// afterwards lets that leave, in 200 ms at most.
  void stop(const std::string& reason);

 private:
  class Impl;
  explicit Broker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus

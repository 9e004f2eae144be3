#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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

namespace meshbus {

class KeptListeners;

/// How a broker is started.
/// Large because: a broker can be started in many ways, and each is one member.
struct BrokerOptions {
  /// The addresses to listen on, at least one; port 0 and an empty path mean any.
  std::vector<HostAddr> binds;
  /// The unix address where procs of other users connect, which a token admits. Every process that
  /// reaches the socket's folder may connect.
  std::optional<HostAddr> bind_procs = {};
  /// The address of the host for others (spec 2.2); without it, the first of `binds`. Port 0 means
  /// the port of the first tcp bind.
  std::optional<HostAddr> advertise;
  /// The unix address where ZeroMQ tools may subscribe to events (schemas/monitor.fbs).
  std::optional<HostAddr> monitor;
  /// The unix address where tools may subscribe to copies of messages (Tap).
  std::optional<HostAddr> tap;
  /// Where the audit trail is kept, PATH.jsonl; empty: nowhere (AuditTrail).
  std::string audit = {};
  /// The keys for tcp connections (spec 13.1). The broker reads them again while it runs.
  std::optional<KeyDirectory> keys;
  /// Accept and make unprotected tcp connections, whether there are keys or not (spec 13.1).
  bool insecure = false;
  /// Listening sockets of the broker before; those that it does not use are closed. Null: none.
  std::shared_ptr<KeptListeners> kept = {};
  /// Checks tokens by the warden's secret. Without it the broker refuses agents and procs.
  std::optional<TokenMaker> tokens;
  /// Called once, when it listens everywhere: makes the process of root another user's. Keys are
  /// read afterwards, as they are again while it runs. Such a broker connects to no unix socket of
  /// another host.
  std::function<Result<void>()> become_other_user = {};
  /// 0 = a random one.
  std::uint64_t incarnation = 0;
  /// How long a message waits for the first connection to its host.
  std::chrono::milliseconds link_connect_limit{5000};
  /// A link that only an observer or client has introduced, and that never had an answer, is
  /// forgotten when it has been idle for between once and twice as long.
  std::chrono::milliseconds link_forget_after{60000};
  /// A connection that has said no Hello after so long is closed.
  std::chrono::milliseconds hello_limit{10000};
  Config config;
  /// The protocol that the broker announces.
  Protocol protocol = {};
  /// The capabilities that the broker announces (Hello.capabilities, Welcome.capabilities); fewer
  /// than all make it behave as an older release.
  std::uint64_t capabilities = kCapabilities;
};

/// One host's broker: registers peers, and brings messages from one to another and to other hosts'
/// brokers. It reads only envelopes, and the bodies of messages to itself (schemas/bus.fbs).
///
/// Lives on the reactor's thread: make it, use it and destroy it there. The reactor must outlive
/// it.
class Broker {
 public:
  /// Errors: configuration_error (binds and advertised address do not fit, tcp without `insecure`
  /// or keys, keys that cannot be used), io_error (an address is in use).
  static Result<std::unique_ptr<Broker>> start(Reactor& reactor, BrokerOptions options);
  /// Drops all connections at once; what is queued is lost. See stop().
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// The address of its host for others, concrete.
  const HostAddr& address() const noexcept;
  /// The addresses that it listens on, concrete, in the order of BrokerOptions::binds.
  const std::vector<HostAddr>& binds() const noexcept;
  /// The listening sockets; they stay the broker's. Another process that holds them too keeps
  /// connections that come while no broker runs (KeptListeners).
  std::vector<int> listeners() const;
  std::uint64_t incarnation() const noexcept;
  /// Registered peers, inbound links included.
  std::size_t peers() const noexcept;
  /// The agent of the host is registered.
  bool has_agent() const;
  Counters counters() const;
  /// Messages that are queued here at this moment.
  std::size_t held() const;
  /// Forgets what is remembered only to explain things: introductions that were refused, and the
  /// launchers of observers and clients, that had been refused or had left by the last call.
  void forget_old();

  /// Says Bye to all peers and sends what is queued as far as it goes at once. Destroying it
  /// afterwards lets that leave, in 200 ms at most.
  void stop(const std::string& reason);

 private:
  class Impl;
  explicit Broker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus

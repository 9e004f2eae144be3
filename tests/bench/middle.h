#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/brokers.h"
#include "bench/child.h"

namespace meshbus::bench {

/// What is in between two ends.
enum class Between {
  relay,              ///< One bare ROUTER.
  relay_tcp,          ///< The same, its ends on tcp over the loopback interface.
  two_relays,         ///< Two of them, linked over tcp on the loopback interface.
  two_relays_curve,   ///< The same, with keys on that link.
  broker,             ///< meshbus-broker.
  broker_tcp,         ///< The same, its ends on tcp.
  two_brokers,        ///< Two of them, linked over tcp.
  two_brokers_curve,  ///< The same, with keys on that link.
  two_kept,           ///< Two brokers, linked over tcp, of run_broker().
  two_unkept,         ///< The same, of a release that neither numbers frames nor keeps them.
  nats,               ///< nats-server.
  two_nats,           ///< Two of them, in one cluster: a route between them, over tcp.
};

/// The processes in between, started for one measurement; local ends connect by unix sockets, those
/// of NATS, which has none, by tcp.
class Middle {
 public:
  explicit Middle(Between between);
  /// Where the end that asks, and the one that answers, connect to.
  const std::string& asker_address() const noexcept { return asker_; }
  const std::string& other_address() const noexcept { return other_; }
  /// CPU time of all of them together.
  std::chrono::nanoseconds cpu() const;
  /// Memory that they have now.
  std::size_t resident_kib() const;

 private:
  void start_relay(bool is_tcp);
  void start_two_relays(bool has_keys);
  void start_brokers(std::size_t count, BrokerLink link);
  void start_broker_tcp();
  void start_two_of_ours(bool is_keeping);
  void start_nats();
  void start_two_nats();
  /// The ports of a nats-server: of its clients and, in a cluster, of its routes.
  struct NatsPorts {
    std::string clients;
    std::string routes;
  };
  /// Returns when it has said all of `words`.
  NatsPorts start_nats_server(const std::string& flags, std::vector<std::string> words);
  Child& start(std::vector<std::string> argv);

  SocketFolder folder_;
  std::vector<std::unique_ptr<Child>> processes_;
  std::optional<Brokers> brokers_;
  std::string asker_, other_;
};

}  // namespace meshbus::bench

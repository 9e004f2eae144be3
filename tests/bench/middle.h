#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/brokers.h"
#include "client/bench/child.h"

namespace meshbus::bench {

/// What is in between two ends.
enum class Between {
  relay,              ///< One bare ROUTER.
  two_relays,         ///< Two of them, linked over tcp on the loopback interface.
  two_relays_curve,   ///< The same, with keys on that link.
  broker,             ///< meshbus-broker.
  two_brokers,        ///< Two of them, linked like that.
  two_brokers_curve,  ///< The same, with keys on that link.
  nats,               ///< nats-server.
};

/// The processes in between, started for one measurement; local ends connect by unix sockets, those of NATS, which has none, by tcp.
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
  void start_relay();
  void start_two_relays(bool has_keys);
  void start_brokers(std::size_t count, BrokerLink link);
  void start_nats();
  Child& start(std::vector<std::string> argv);

  SocketFolder folder_;
  std::vector<std::unique_ptr<Child>> processes_;
  std::optional<Brokers> brokers_;
  std::string asker_, other_;
};

}  // namespace meshbus::bench

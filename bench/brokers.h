#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bench/child.h"

namespace meshbus::bench {

/// How brokers of one machine are linked.
enum class BrokerLink { tcp, tcp_with_keys, unix_socket };

/// Brokers of our own, for one measurement; peers connect to their unix sockets.
class Brokers {
 public:
  /// With a link by tcp (on the loopback interface) more than one is known by its tcp address, else
  /// by its unix socket.
  Brokers(std::size_t count, BrokerLink link);
  /// As ZeroMQ writes it.
  const std::string& endpoint(std::size_t index) const { return endpoints_.at(index); }
  pid_t pid(std::size_t index) const { return processes_.at(index)->pid(); }
  std::size_t count() const { return processes_.size(); }
  /// CPU time of all of them together.
  std::chrono::nanoseconds cpu() const;

 private:
  /// Makes the key that all of them have; where it is.
  std::string make_keys();

  SocketFolder folder_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Child>> processes_;
};

}  // namespace meshbus::bench

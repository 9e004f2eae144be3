#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "broker/peers/peer.h"

namespace meshbus {

/// The connections over tcp that have not authenticated yet: few, and each remote network a share
/// of them. A newcomer always gets in. Where there is no room it takes the place of the oldest one
/// of its own network, or of the network that has the most: an honest handshake takes milliseconds,
/// and only connections that wait for nothing grow old. Pure.
class HandshakePool {
 public:
  struct Limits {
    std::size_t all;
    std::size_t per_network;
  };
  explicit HandshakePool(Limits limits) : limits_(limits) {}

  /// `network`: TcpAddress::network(). Returns the connection that has to go for it, if one has to.
  std::optional<ConnectionId> enter(ConnectionId id, const std::string& network);
  /// It has authenticated, or has ended. Unknown ones are ignored.
  void leave(ConnectionId id);
  /// The oldest connection of the network that has the most; nothing: the pool is empty.
  std::optional<ConnectionId> first_to_go() const;
  bool contains(ConnectionId id) const { return networks_.contains(id); }
  std::size_t size() const noexcept { return networks_.size(); }

 private:
  Limits limits_;
  std::unordered_map<ConnectionId, std::string> networks_;
  /// The connections of each network, the oldest first.
  std::unordered_map<std::string, std::deque<ConnectionId>> waiting_;
};

}  // namespace meshbus

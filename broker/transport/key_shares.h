#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "broker/peers/peer.h"

namespace meshbus {

/// What all connections with one key may have of a broker at a time: so many of them, and so many
/// bytes of messages that have not come whole. Without these limits the holder of one key that may
/// only look could take all connections over tcp, or all memory. Pure.
class KeyShares {
 public:
  struct Limits {
    std::size_t connections = SIZE_MAX;
    std::size_t bytes = SIZE_MAX;
  };
  explicit KeyShares(Limits limits) : limits_(limits) {}

  /// One more connection with that key. False: there are as many as may be.
  bool enter(ConnectionId id, const std::string& key);
  /// It has ended. Unknown ones are ignored.
  void leave(ConnectionId id);
  /// How many messages of that connection have come whole, and the bytes of the one that has not.
  /// Returns the connection that has to go, when all with its key hold too many bytes: the one
  /// whose message began first. An honest message is whole within moments, so only those that are
  /// never ended grow old.
  std::optional<ConnectionId> hold(ConnectionId id, std::uint64_t messages, std::size_t bytes);

 private:
  struct Connection {
    std::string key;
    std::uint64_t messages = 0;
    std::size_t bytes = 0;
    /// When its message began, as a number that grows.
    std::uint64_t began = 0;
  };
  struct Key {
    std::unordered_set<ConnectionId> connections = {};
    std::size_t bytes = 0;
  };

  Limits limits_;
  std::unordered_map<ConnectionId, Connection> connections_;
  std::unordered_map<std::string, Key> keys_;
  std::uint64_t next_ = 1;
};

}  // namespace meshbus

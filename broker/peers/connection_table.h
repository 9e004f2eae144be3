#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "broker/peers/peer.h"

namespace meshbus {

/// The registered connections, links included, by their numbers and their descriptors. Owns the
/// peers: one that has ended stays until erase(), as its last messages are still taken. Pure.
class ConnectionTable {
 public:
  using Peers = std::unordered_map<ConnectionId, std::unique_ptr<Peer>>;

  Peer& add(std::unique_ptr<Peer> peer) {
    Peer& added = *peer;
    peers_.emplace(added.connection, std::move(peer));
    if (added.descriptor >= 0) descriptors_[added.descriptor] = added.connection;
    return added;
  }
  /// Or null. Ended ones are found, too.
  Peer* find(ConnectionId connection) const {
    const auto found = peers_.find(connection);
    return found == peers_.end() ? nullptr : found->second.get();
  }
  /// The peer that has that descriptor now, or null.
  Peer* find_descriptor(int descriptor) const {
    const auto found = descriptors_.find(descriptor);
    return found == descriptors_.end() ? nullptr : find(found->second);
  }
  /// Its descriptor may be another connection's from now on. False when it has ended already.
  bool end(Peer& peer) {
    if (peer.is_ended) return false;
    peer.is_ended = true;
    ++ended_;
    const auto found = descriptors_.find(peer.descriptor);
    if (found != descriptors_.end() && found->second == peer.connection) descriptors_.erase(found);
    return true;
  }
  /// One that has ended.
  void erase(const Peer& peer) {
    if (peers_.erase(peer.connection) > 0) --ended_;
  }
  /// Without those that have ended.
  std::size_t size() const noexcept { return peers_.size() - ended_; }
  /// With those that have ended.
  const Peers& all() const noexcept { return peers_; }

 private:
  Peers peers_;
  std::unordered_map<int, ConnectionId> descriptors_;
  std::size_t ended_ = 0;
};

}  // namespace meshbus

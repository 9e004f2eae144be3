#include "broker/transport/handshake_pool.h"

#include <algorithm>

namespace meshbus {

std::optional<ConnectionId> HandshakePool::enter(ConnectionId id, const std::string& network) {
  std::optional<ConnectionId> evicted;
  const auto own = waiting_.find(network);
  if (own != waiting_.end() && own->second.size() >= limits_.per_network) {
    evicted = own->second.front();
  } else if (networks_.size() >= limits_.all) {
    evicted = first_to_go();
  }
  if (evicted) leave(*evicted);
  networks_.emplace(id, network);
  waiting_[network].push_back(id);
  return evicted;
}

void HandshakePool::leave(ConnectionId id) {
  const auto found = networks_.find(id);
  if (found == networks_.end()) return;
  const auto waiting = waiting_.find(found->second);
  std::erase(waiting->second, id);
  if (waiting->second.empty()) waiting_.erase(waiting);
  networks_.erase(found);
}

std::optional<ConnectionId> HandshakePool::first_to_go() const {
  const auto largest =
      std::ranges::max_element(waiting_, {}, [](const auto& one) { return one.second.size(); });
  return largest == waiting_.end() ? std::nullopt : std::optional(largest->second.front());
}

}  // namespace meshbus

#include "broker/transport/key_shares.h"

namespace meshbus {

bool KeyShares::enter(ConnectionId id, const std::string& key) {
  Key& all = keys_[key];
  if (all.connections.size() >= limits_.connections) return false;
  all.connections.insert(id);
  connections_.emplace(id, Connection{.key = key});
  return true;
}

void KeyShares::leave(ConnectionId id) {
  const auto node = connections_.extract(id);
  if (!node) return;
  const auto key = keys_.find(node.mapped().key);
  key->second.bytes -= node.mapped().bytes;
  key->second.connections.erase(id);
  if (key->second.connections.empty()) keys_.erase(key);
}

std::optional<ConnectionId> KeyShares::hold(ConnectionId id, std::uint64_t messages,
                                            std::size_t bytes) {
  Connection& one = connections_.at(id);
  Key& key = keys_.at(one.key);
  if (one.bytes == 0 || one.messages != messages) one.began = next_++;
  one.messages = messages;
  key.bytes += bytes - one.bytes;
  one.bytes = bytes;
  if (key.bytes <= limits_.bytes) return std::nullopt;
  std::optional<ConnectionId> first;
  for (const ConnectionId other : key.connections) {
    const Connection& candidate = connections_.at(other);
    if (candidate.bytes > 0 && (!first || candidate.began < connections_.at(*first).began))
      first = other;
  }
  return first;
}

}  // namespace meshbus

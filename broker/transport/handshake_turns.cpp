#include "broker/transport/handshake_turns.h"

#include <algorithm>

namespace meshbus {
namespace {

/// Rest after each slice, in times of what it took.
constexpr int kRest = 3;

}  // namespace

bool HandshakeTurns::take(ConnectionId id, Time now) {
  if (waiting_.empty() && now >= rested_) return true;
  if (std::ranges::find(waiting_, id) == waiting_.end()) waiting_.push_back(id);
  return false;
}

std::optional<ConnectionId> HandshakeTurns::next(Time now) {
  if (waiting_.empty() || now < rested_) return std::nullopt;
  const ConnectionId id = waiting_.front();
  waiting_.pop_front();
  return id;
}

std::optional<HandshakeTurns::Time> HandshakeTurns::due() const {
  return waiting_.empty() ? std::nullopt : std::optional(rested_);
}

void HandshakeTurns::spent(Duration time, Time now) {
  rested_ = now + kRest * time;
}

}  // namespace meshbus

#include "broker/broker_report.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace meshbus {
namespace {

constexpr std::size_t kMostQueues = 16;
constexpr std::size_t kMostLinksTold = 64;

}  // namespace

Counters BrokerReport::counters() const {
  Counters counters = counters_;
  counters.ignored_frames += listener_.unusable();
  return counters;
}

std::size_t BrokerReport::held() const {
  std::size_t held = router_.held() + casts_.held() + links_.held();
  for (const auto& [id, peer] : connections_.all()) held += peer->outbox.count();
  return held;
}

wire::BrokerCountersT BrokerReport::counters_event() const {
  const Counters now = counters();
  wire::BrokerCountersT event;
  event.received = now.received;
  event.originated = now.originated;
  event.delivered = now.delivered;
  event.handled = now.handled;
  event.returned = now.returned;
  event.fate_unknown = now.fate_unknown;
  event.replayed_frames = now.replayed_frames;
  event.duplicate_frames = now.duplicate_frames;
  event.dropped_old_incarnation = now.dropped[static_cast<std::size_t>(Drop::old_incarnation)];
  event.dropped_no_return = now.dropped[static_cast<std::size_t>(Drop::no_return)];
  event.dropped_not_needed = now.dropped[static_cast<std::size_t>(Drop::not_needed)];
  event.dropped_false_source = now.dropped[static_cast<std::size_t>(Drop::false_source)];
  event.malformed_frames = now.malformed_frames;
  event.ignored_frames = now.ignored_frames;
  event.refused_hellos = now.refused_hellos;
  event.refused_keys = now.refused_keys;
  event.refused_handshakes = now.refused_handshakes;
  event.refused_messages = now.refused_messages;
  event.received_bytes = now.received_bytes;
  event.direct = now.direct;
  event.direct_bytes = now.direct_bytes;
  event.links = links_.connected();
  event.held = held();
  event.peers = connections_.size();
  auto waiting = queues(std::chrono::milliseconds(1));
  waiting.resize(std::min(waiting.size(), kMostQueues));
  for (auto& queue : waiting)
    event.queues.push_back(std::make_unique<wire::QueueStateT>(std::move(queue)));
  return event;
}

wire::BrokerStateT BrokerReport::state() const {
  const Counters now = counters();
  wire::BrokerStateT state;
  state.received = now.received;
  state.delivered = now.delivered;
  state.returned = now.returned;
  for (const auto dropped : now.dropped) state.dropped += dropped;
  state.refused =
      now.refused_hellos + now.refused_keys + now.refused_handshakes + now.refused_messages;
  state.held = held();
  state.peers = connections_.size();
  auto waiting = queues(std::chrono::milliseconds(1));
  waiting.resize(std::min(waiting.size(), kMostQueues));
  for (auto& queue : waiting) {
    auto& told = state.queues.emplace_back(std::make_unique<wire::PeerQueueT>());
    told->peer = std::move(queue.peer);
    told->bytes = queue.bytes;
    told->messages = queue.messages;
    told->waits_ms = queue.waits_ms;
  }
  for (auto& link : links_.states(kMostLinksTold))
    state.links.push_back(std::make_unique<wire::LinkStateT>(std::move(link)));
  return state;
}

std::vector<wire::QueueStateT> BrokerReport::queues(std::chrono::milliseconds waits) const {
  std::vector<wire::QueueStateT> found;
  for (const auto& [id, peer] : connections_.all()) {
    const Reactor::Time since = peer->sending.stalled_since;
    if (peer->is_ended || peer->outbox.empty() || since == Reactor::Time{}) continue;
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(reactor_.now() - since);
    if (waited < waits) continue;
    wire::QueueStateT& queue = found.emplace_back();
    queue.peer = peer->identity.text;
    queue.bytes = peer->outbox.bytes();
    queue.messages = peer->outbox.count();
    queue.waits_ms = static_cast<std::uint64_t>(waited.count());
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return found;
}

std::string BrokerReport::name_of(std::uint64_t key) const {
  if (key == router_.own().key()) return router_.own().address().to_string();
  if (const Peer* peer = router_.routes().find(key)) return peer->identity.text;
  if (const Link* link = links_.find(key)) return link->host().to_string();
  const std::string* gone = router_.routes().find_gone(key);
  return gone == nullptr ? std::string() : *gone;
}

}  // namespace meshbus

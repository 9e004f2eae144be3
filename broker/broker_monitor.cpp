// What the monitor and the tap are told of the broker as a whole.
#include <algorithm>

#include "broker/broker_impl.h"

#include "wire/monitor_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kMostQueues = 16;
constexpr std::chrono::milliseconds kSlow{1000};

}  // namespace

Result<void> Broker::Impl::open_monitor(zmq::context_t& context) {
  if (!options.monitor) return {};
  Monitor::Sources sources{.counters = [this] { return counters_event(); },
                           .slow = [this] { return queues(kSlow); }};
  auto opened = Monitor::open(reactor_, context, *options.monitor,
                              {.host = *host, .incarnation = incarnation}, std::move(sources));
  if (!opened) return fail(opened.error());
  monitor_ = std::move(*opened);
  forwarder_->set_monitor(monitor_.get());
  return {};
}

Result<void> Broker::Impl::open_tap(zmq::context_t& context) {
  if (!options.tap) return {};
  Tap::Events events{
      .name_of = [this](std::uint64_t key) { return name_of(key); },
      .on_wanted =
          [this](bool is_wanted) { forwarder_->set_tap(is_wanted ? tap_.get() : nullptr); }};
  auto opened = Tap::open(reactor_, context, *options.tap,
                          {.host = *host, .incarnation = incarnation}, std::move(events));
  if (!opened) return fail(opened.error());
  tap_ = std::move(*opened);
  return {};
}

std::string Broker::Impl::name_of(std::uint64_t key) {
  if (key == forwarder_->own_key()) return host->to_string();
  if (const Peer* peer = routes_.find(key)) return peer->identity.text;
  if (const Link* link = forwarder_->find_link(key)) return link->host().to_string();
  const std::string* gone = routes_.find_gone(key);
  return gone == nullptr ? std::string() : *gone;
}

wire::BrokerCountersT Broker::Impl::counters_event() const {
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
  event.dropped_old_life = now.dropped[static_cast<std::size_t>(Drop::old_life)];
  event.dropped_no_return = now.dropped[static_cast<std::size_t>(Drop::no_return)];
  event.dropped_not_needed = now.dropped[static_cast<std::size_t>(Drop::not_needed)];
  event.dropped_false_source = now.dropped[static_cast<std::size_t>(Drop::false_source)];
  event.malformed_frames = now.malformed_frames;
  event.ignored_frames = now.ignored_frames;
  event.refused_hellos = now.refused_hellos;
  event.refused_keys = now.refused_keys;
  event.refused_handshakes = now.refused_handshakes;
  event.refused_messages = now.refused_messages;
  event.held = held();
  event.peers = connections.size() - ended;
  auto waiting = queues(std::chrono::milliseconds(1));
  waiting.resize(std::min(waiting.size(), kMostQueues));
  for (auto& queue : waiting)
    event.queues.push_back(std::make_unique<wire::QueueStateT>(std::move(queue)));
  return event;
}

std::vector<wire::QueueStateT> Broker::Impl::queues(std::chrono::milliseconds waits) const {
  std::vector<wire::QueueStateT> found;
  for (const auto& [id, peer] : connections) {
    if (peer->is_ended || peer->outbox.empty() || peer->waits_since == Reactor::Time{}) continue;
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(reactor_.now() - peer->waits_since);
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

}  // namespace meshbus

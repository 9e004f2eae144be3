#include "broker/observe/monitor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/clock_ns.h"
#include "common/wire/control.h"
#include "wire/monitor_generated.h"

namespace meshbus {
namespace {

/// In the order of Monitor::Topic.
constexpr std::array<std::string_view, 9> kNames{"peer.up", "peer.down", "peer.refused",
                                                 "link.up", "link.down", "undeliverable",
                                                 "dropped", "slow",      "counters"};
/// Events that wait for one subscriber; what comes then is lost to it.
constexpr int kMostUnsent = 10000;
/// Topics are short, and so are subscriptions.
constexpr std::size_t kLongestSubscription = 64;
constexpr std::chrono::seconds kInterval{1};

}  // namespace

Result<std::unique_ptr<Monitor>> Monitor::open(Reactor& reactor, ToolContext& context,
                                               const HostAddr& address, Speaker speaker,
                                               Sources sources) {
  std::unique_ptr<Monitor> monitor(
      new Monitor(reactor, context, std::move(speaker), std::move(sources)));
  if (auto listening = monitor->socket_.listen(address); !listening) return fail(listening.error());
  return monitor;
}

Monitor::Monitor(Reactor& reactor, ToolContext& context, Speaker speaker, Sources sources)
    : reactor_(reactor),
      speaker_(std::move(speaker)),
      sources_(std::move(sources)),
      socket_(reactor, context,
              {.name = "the monitor",
               .most_unsent = kMostUnsent,
               .longest_subscription = kLongestSubscription},
              [this] { return on_subscription(); }) {}

Monitor::~Monitor() {
  reactor_.cancel(timer_);
}

bool Monitor::on_subscription() {
  constexpr int most_at_once = 256;
  bool is_drained = false;
  for (int i = 0; i < most_at_once && !is_drained; ++i) {
    const auto text = socket_.receive();
    if (!text) {
      is_drained = true;
      continue;
    }
    // 1 or 0, and the beginning of a topic: its first subscription, and the end of its last one.
    if (text->empty() || (text->front() != 0 && text->front() != 1)) continue;
    const auto beginning = std::string_view(*text).substr(1);
    const auto fits = [beginning](std::string_view name) { return name.starts_with(beginning); };
    if (text->front() == 0) {
      subscriptions_.erase(std::string(beginning));
    } else if (std::any_of(kNames.begin(), kNames.end(), fits)) {
      subscriptions_.emplace(beginning);  // as many as there are beginnings of topics, at most
    }
  }
  for (std::size_t topic = 0; topic < kTopics; ++topic) {
    wanted_[topic] = std::any_of(
        subscriptions_.begin(), subscriptions_.end(),
        [topic](const std::string& beginning) { return kNames[topic].starts_with(beginning); });
  }
  const bool is_timed = is_wanted(Topic::counters) || is_wanted(Topic::slow);
  if (is_timed && timer_ == 0) timer_ = reactor_.after(kInterval, [this] { on_second(); });
  return !is_drained;
}

void Monitor::on_second() {
  timer_ = 0;
  if (is_wanted(Topic::counters)) {
    begin(Topic::counters);
    publish(Topic::counters, sources_.counters());
  }
  if (is_wanted(Topic::slow)) {
    for (wire::QueueStateT& queue : sources_.slow()) {
      begin(Topic::slow);
      publish(Topic::slow, std::move(queue));
    }
  }
  if (is_wanted(Topic::counters) || is_wanted(Topic::slow))
    timer_ = reactor_.after(kInterval, [this] { on_second(); });
}

bool Monitor::begin(Topic topic) noexcept {
  ++sequences_[static_cast<std::size_t>(topic)];
  return is_wanted(topic);
}

template <typename T>
void Monitor::publish(Topic topic, T body) {
  wire::MonitorEventT event;
  event.host = speaker_.host.to_string();
  event.incarnation = speaker_.incarnation;
  event.sequence = sequences_[static_cast<std::size_t>(topic)];
  event.time_ns = clock_ns(CLOCK_REALTIME);
  event.body.Set(std::move(body));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::CreateMonitorEvent(builder, &event), "MBM1");
  socket_.publish(kNames[static_cast<std::size_t>(topic)],
                  bytes_of(builder.GetBufferPointer(), builder.GetSize()));
}

void Monitor::peer_up(const Identity& peer) {
  if (peer.is_link()) {
    if (!begin(Topic::link_up)) return;
    wire::LinkUpT up;
    up.host = peer.text;
    up.inbound = true;
    up.incarnation = peer.incarnation;
    publish(Topic::link_up, std::move(up));
    return;
  }
  if (!begin(Topic::peer_up)) return;
  wire::PeerUpT up;
  up.peer = peer.text;
  up.kind = peer.kind;
  up.role = peer.role;
  up.incarnation = peer.incarnation;
  up.pid = peer.pid;
  publish(Topic::peer_up, std::move(up));
}

void Monitor::peer_down(const Identity& peer, const std::string& reason) {
  if (peer.is_link()) {
    if (!begin(Topic::link_down)) return;
    wire::LinkDownT down;
    down.host = peer.text;
    down.inbound = true;
    down.reason = cut_text(reason);
    publish(Topic::link_down, std::move(down));
    return;
  }
  if (!begin(Topic::peer_down)) return;
  wire::PeerDownT down;
  down.peer = peer.text;
  down.kind = peer.kind;
  down.incarnation = peer.incarnation;
  down.pid = peer.pid;
  down.reason = cut_text(reason);
  publish(Topic::peer_down, std::move(down));
}

void Monitor::peer_refused(const Error& error) {
  if (!begin(Topic::peer_refused)) return;
  wire::PeerRefusedT refused;
  refused.code = to_wire(error.code());
  refused.reason = cut_text(error.detail());
  publish(Topic::peer_refused, std::move(refused));
}

void Monitor::link_up(const HostAddr& host, std::uint64_t incarnation) {
  if (!begin(Topic::link_up)) return;
  wire::LinkUpT up;
  up.host = host.to_string();
  up.incarnation = incarnation;
  publish(Topic::link_up, std::move(up));
}

void Monitor::link_down(const HostAddr& host, const Error& error) {
  if (!begin(Topic::link_down)) return;
  wire::LinkDownT down;
  down.host = host.to_string();
  down.reason = cut_text(error.detail());
  publish(Topic::link_down, std::move(down));
}

void Monitor::returned(const wire::Envelope& envelope, const Error& error) {
  if (!begin(Topic::undeliverable)) return;
  wire::MessageReturnedT returned;
  returned.envelope = std::make_unique<wire::Envelope>(envelope);
  returned.code = to_wire(error.code());
  returned.reason = cut_text(error.detail());
  publish(Topic::undeliverable, std::move(returned));
}

void Monitor::dropped(const wire::Envelope& envelope, Drop reason) {
  if (!begin(Topic::dropped)) return;
  wire::MessageDroppedT dropped;
  dropped.envelope = std::make_unique<wire::Envelope>(envelope);
  dropped.reason = static_cast<wire::DropReason>(reason);
  publish(Topic::dropped, std::move(dropped));
}

}  // namespace meshbus

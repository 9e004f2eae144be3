#include "agent/metrics/broker_listener.h"

#include <cstdint>
#include <utility>

#include "common/loop/zmq_watch.h"
#include "wire/monitor_generated.h"

namespace meshbus::metrics {
namespace {

constexpr int kMostInTurn = 16;
constexpr int kMostEvents = 16;
constexpr std::int64_t kLargestEvent = 256 * 1024;

}  // namespace

BrokerListener::BrokerListener(Reactor& reactor, zmq::context_t& context, const HostAddr& monitor,
                               OnCounters on_counters)
    : reactor_(reactor),
      socket_(context, zmq::socket_type::sub),
      on_counters_(std::move(on_counters)) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::rcvhwm, kMostEvents);
  socket_.set(zmq::sockopt::maxmsgsize, kLargestEvent);
  socket_.set(zmq::sockopt::subscribe, "counters");
  socket_.connect(monitor.zmq_endpoint());
  watch_zmq(reactor_, socket_.handle(), [this] { return on_messages(); });
}

BrokerListener::~BrokerListener() {
  reactor_.forget_socket(socket_.handle());
}

bool BrokerListener::on_messages() {
  for (int i = 0; i < kMostInTurn; ++i) {
    zmq::message_t topic;
    zmq::message_t body;
    if (!socket_.recv(topic, zmq::recv_flags::dontwait)) return false;
    if (!topic.more() || !socket_.recv(body, zmq::recv_flags::dontwait)) continue;
    flatbuffers::Verifier verifier(body.data<std::uint8_t>(), body.size());
    if (!verifier.VerifyBuffer<wire::MonitorEvent>("MBM1")) continue;
    wire::MonitorEventT event;
    flatbuffers::GetRoot<wire::MonitorEvent>(body.data())->UnPackTo(&event);
    if (const auto* counters = event.body.AsBrokerCounters())
      on_counters_(event.incarnation, *counters);
  }
  return true;
}

}  // namespace meshbus::metrics

#include "common/outbox.h"

namespace meshbus {

bool Outbox::push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart) {
  auto& lane = lanes_[static_cast<std::size_t>(envelope.lane())];
  const std::size_t size = sizeof envelope + body.size();
  // One message always fits, however small the limit.
  if (lane.count > 0 && (lane.bytes + size > limits_.bytes || lane.count + 1 > limits_.count)) return false;
  if (lane.open.is_full()) lane.closed.push_back(lane.open.finish());
  if (apart != nullptr) {
    lane.open.add_apart(envelope, std::move(*apart));
  } else {
    lane.open.add(envelope, body);
  }
  lane.bytes += size;
  ++lane.count;
  return true;
}

Frame* Outbox::front() {
  for (auto& lane : lanes_) {
    if (lane.closed.empty() && !lane.open.empty()) lane.closed.push_back(lane.open.finish());
    if (!lane.closed.empty()) return &lane.closed.front();
  }
  return nullptr;
}

void Outbox::pop() {
  for (auto& lane : lanes_) {
    if (lane.closed.empty()) continue;
    lane.count -= lane.closed.front().count;
    lane.bytes -= lane.closed.front().bytes;
    lane.closed.pop_front();
    return;
  }
}

void Outbox::drain(const std::function<void(const wire::Envelope&, Bytes)>& each) {
  while (Frame* frame = front()) {
    auto reader = FrameReader::open(frame->parts);
    FrameReader::Message message;
    while (reader && reader->next(message)) each(message.envelope, message.body);
    pop();
  }
}

}  // namespace meshbus

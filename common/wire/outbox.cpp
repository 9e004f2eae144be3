#include "common/wire/outbox.h"

#include "wire/frame_generated.h"

namespace meshbus {

Frame* Outbox::front() {
  for (auto& lane : lanes_) {
    if (lane.closed.empty() && !lane.open.empty()) lane.closed.push_back(lane.open.finish());
    if (!lane.closed.empty()) return &lane.closed.front();
  }
  return nullptr;
}

void Outbox::push_frame(Frame frame) {
  auto& lane = lanes_[static_cast<std::size_t>(wire::Lane::data)];
  if (!lane.open.empty()) lane.closed.push_back(lane.open.finish());
  lane.count += frame.count;
  lane.bytes += frame.bytes;
  lane.closed.push_back(std::move(frame));
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

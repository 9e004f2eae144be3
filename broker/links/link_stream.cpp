#include "broker/links/link_stream.h"

#include "wire/frame_generated.h"

namespace meshbus {

void LinkStream::begin_incarnation(std::uint64_t incarnation) {
  memory_.incarnation = incarnation;
  memory_.taken = 0;
}

bool LinkStream::has_room(const Frame& frame) const noexcept {
  const std::size_t held = bytes_[static_cast<std::size_t>(frame.lane)];
  // One frame always fits, however small the window.
  return held == 0 || held + frame.bytes <= window_;
}

void LinkStream::keep(Frame copy) {
  // What is kept but not yet sent again comes first.
  if (replay_ == kept_.size()) ++replay_;
  ++memory_.sent;
  bytes_[static_cast<std::size_t>(copy.lane)] += copy.bytes;
  kept_count_ += copy.count;
  kept_.push_back(std::move(copy));
}

std::uint64_t LinkStream::acknowledge(std::uint64_t number) {
  if (number > memory_.sent) return 0;
  std::uint64_t done = 0;
  while (!kept_.empty() && first_number() <= number) {
    done += kept_.front().count;
    pop();
  }
  return done;
}

void LinkStream::pop() {
  const Frame& frame = kept_.front();
  bytes_[static_cast<std::size_t>(frame.lane)] -= frame.bytes;
  kept_count_ -= frame.count;
  kept_.pop_front();
  if (replay_ > 0) --replay_;
}

void LinkStream::give_up(const std::function<void(const wire::Envelope&, Bytes)>& each) {
  // `each` may send something by this very link.
  std::deque<Frame> frames = std::exchange(kept_, {});
  replay_ = 0;
  bytes_[0] = bytes_[1] = 0;
  kept_count_ = 0;
  for (Frame& frame : frames) {
    auto reader = FrameReader::open(frame.parts);
    FrameReader::Message message;
    while (reader && reader->next(message)) each(message.envelope, message.body);
  }
}

bool LinkStream::take(std::uint64_t number) noexcept {
  if (number <= memory_.taken) return false;
  memory_.taken = number;
  return true;
}

}  // namespace meshbus

#include "common/wire/frame.h"

#include <cstring>
#include <string>
#include <utility>

#include "common/wire/protocol.h"
#include "wire/frame_generated.h"

namespace meshbus {
void Frame::set_credit(std::uint64_t credit) {
  wire::FrameHeader header;
  std::memcpy(&header, parts.front().data(), sizeof header);
  header.mutate_credit(credit);
  std::memcpy(parts.front().data(), &header, sizeof header);
}

void Frame::set_link(std::uint64_t sequence, std::uint64_t ack) {
  const wire::LinkHeader link(sequence, ack);
  std::memcpy(static_cast<char*>(parts.front().data()) + kFrameHeaderSize, &link, sizeof link);
}

Frame Frame::shared() {
  Frame copy;
  copy.lane = lane;
  copy.bytes = bytes;
  copy.count = count;
  copy.parts.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) copy.parts[i].share(parts[i]);
  return copy;
}

Frame Frame::renewed() {
  Frame copy = shared();
  copy.parts.front() = MessagePart(parts.front().view());
  return copy;
}

void FrameWriter::begin() {
  const std::size_t size = kFrameHeaderSize + (link_ ? sizeof(wire::LinkHeader) : 0);
  std::memset(packed_.extend(size), 0, size);
}

void FrameWriter::add_detached(const wire::Envelope& envelope, MessagePart body) {
  write_envelope(extend(0), envelope, body.size(), envelope.flags() | kFlagDetached);
  detached_.push_back(std::move(body));
}

Frame FrameWriter::finish() {
  if (packed_.empty()) begin();
  const wire::FrameHeader header(kFrameMagic, kFrameVersion, lane_,
                                 static_cast<std::uint16_t>(count_),
                                 link_ ? kFrameFlagLink : std::uint16_t{0}, 0);
  std::memcpy(packed_.data(), &header, sizeof header);
  Frame frame;
  frame.lane = lane_;
  frame.bytes = std::exchange(bytes_, 0);
  frame.count = std::exchange(count_, 0);
  frame.parts.reserve(1 + detached_.size());
  frame.parts.push_back(packed_.release());
  for (auto& part : detached_) frame.parts.push_back(std::move(part));
  detached_.clear();
  return frame;
}

Result<FrameReader> FrameReader::open(std::vector<MessagePart>& parts) {
  if (parts.empty() || parts.front().size() < kFrameHeaderSize)
    return fail(ErrorCode::malformed_message, "a frame shorter than its header");
  FrameReader reader(parts);
  std::memcpy(&reader.header_, parts.front().data(), kFrameHeaderSize);
  reader.offset_ = kFrameHeaderSize;
  if (reader.header_.magic() != kFrameMagic)
    return fail(ErrorCode::malformed_message, "not a meshbus frame");
  if (reader.header_.version() != kFrameVersion)
    return fail(ErrorCode::version_mismatch,
                "frames of layout " + std::to_string(reader.header_.version()) +
                    ", this side (meshbus " + std::string(this_release()) + ") reads layout " +
                    std::to_string(kFrameVersion) +
                    "; both must be of the same release of meshbus");
  if (reader.header_.lane() > wire::Lane::data)
    return fail(ErrorCode::malformed_message, "a frame of an unknown lane");
  if (reader.is_link()) {
    if (parts.front().size() < kFrameHeaderSize + sizeof(wire::LinkHeader))
      return fail(ErrorCode::malformed_message, "a frame shorter than its link header");
    std::memcpy(&reader.link_, static_cast<const char*>(parts.front().data()) + kFrameHeaderSize,
                sizeof reader.link_);
    reader.offset_ += sizeof(wire::LinkHeader);
  }
  reader.left_ = reader.header_.count();
  return reader;
}

std::size_t FrameReader::size() const noexcept {
  std::size_t size = 0;
  for (std::size_t i = 0; i < part_count_; ++i) size += parts_[i].size();
  return size;
}

}  // namespace meshbus

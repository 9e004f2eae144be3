#include "common/frame.h"

#include <cstring>

#include "common/protocol.h"

namespace meshbus {
namespace {

constexpr std::size_t kHeaderSize = sizeof(wire::FrameHeader);
constexpr std::size_t kEnvelopeSize = sizeof(wire::Envelope);
static_assert(kHeaderSize == 16 && sizeof(wire::LinkHeader) == 16 && kEnvelopeSize == 64, "the layout in bus.fbs is frozen");

constexpr std::size_t padded(std::size_t size) {
  return (size + 7) & ~std::size_t{7};
}

template <typename T>
void append_struct(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void Frame::set_credit(std::uint64_t credit) {
  wire::FrameHeader header;
  std::memcpy(&header, parts.front().data(), sizeof header);
  header.mutate_credit(credit);
  std::memcpy(parts.front().data(), &header, sizeof header);
}

void Frame::set_link(std::uint64_t sequence, std::uint64_t ack) {
  const wire::LinkHeader link(sequence, ack);
  std::memcpy(static_cast<char*>(parts.front().data()) + kHeaderSize, &link, sizeof link);
}

Frame Frame::shared() {
  Frame copy;
  copy.lane = lane;
  copy.bytes = bytes;
  copy.count = count;
  copy.parts.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) copy.parts[i].copy(parts[i]);
  return copy;
}

Frame Frame::renewed() {
  Frame copy = shared();
  copy.parts.front().rebuild(parts.front().data(), parts.front().size());
  return copy;
}

void FrameWriter::add(wire::Envelope envelope, Bytes body) {
  if (body.size() > kInlineLimit) {
    add_apart(envelope, zmq::message_t(body.data(), body.size()));
    return;
  }
  if (packed_.empty()) packed_.resize(kHeaderSize + (link_ ? sizeof(wire::LinkHeader) : 0));
  envelope.mutate_length(static_cast<std::uint32_t>(body.size()));
  envelope.mutate_lane(lane_);
  envelope.mutate_flags(envelope.flags() & ~kFlagApart);
  append_struct(packed_, envelope);
  packed_.append(body);
  packed_.append(padded(body.size()) - body.size(), '\0');
  bytes_ += kEnvelopeSize + body.size();
  ++count_;
}

void FrameWriter::add_apart(wire::Envelope envelope, zmq::message_t body) {
  if (packed_.empty()) packed_.resize(kHeaderSize + (link_ ? sizeof(wire::LinkHeader) : 0));
  envelope.mutate_length(static_cast<std::uint32_t>(body.size()));
  envelope.mutate_lane(lane_);
  envelope.mutate_flags(envelope.flags() | kFlagApart);
  append_struct(packed_, envelope);
  bytes_ += kEnvelopeSize + body.size();
  apart_.push_back(std::move(body));
  ++count_;
}

Frame FrameWriter::finish() {
  if (packed_.empty()) packed_.resize(kHeaderSize + (link_ ? sizeof(wire::LinkHeader) : 0));
  const wire::FrameHeader header(kFrameMagic, kFrameVersion, lane_, static_cast<std::uint16_t>(count_),
                                 link_ ? kFrameFlagLink : std::uint16_t{0}, 0);
  std::memcpy(packed_.data(), &header, sizeof header);
  Frame frame;
  frame.lane = lane_;
  frame.bytes = bytes_;
  frame.count = count_;
  frame.parts.reserve(1 + apart_.size());
  frame.parts.emplace_back(packed_.data(), packed_.size());
  for (auto& part : apart_) frame.parts.push_back(std::move(part));
  packed_.clear();
  apart_.clear();
  bytes_ = 0;
  count_ = 0;
  return frame;
}

Result<FrameReader> FrameReader::open(std::vector<zmq::message_t>& parts) {
  if (parts.empty() || parts.front().size() < kHeaderSize) return fail(ErrorCode::malformed_message, "a frame shorter than its header");
  FrameReader reader(parts);
  std::memcpy(&reader.header_, parts.front().data(), kHeaderSize);
  reader.offset_ = kHeaderSize;
  if (reader.header_.magic() != kFrameMagic) return fail(ErrorCode::malformed_message, "not a meshbus frame");
  if (reader.header_.version() != kFrameVersion)
    return fail(ErrorCode::version_mismatch, "frames of layout " + std::to_string(reader.header_.version()) + ", this side (meshbus " +
                                                 std::string(this_release()) + ") reads layout " + std::to_string(kFrameVersion) +
                                                 "; both must be of the same release of meshbus");
  if (reader.header_.lane() > wire::Lane::data) return fail(ErrorCode::malformed_message, "a frame of an unknown lane");
  if (reader.is_link()) {
    if (parts.front().size() < kHeaderSize + sizeof(wire::LinkHeader))
      return fail(ErrorCode::malformed_message, "a frame shorter than its link header");
    std::memcpy(&reader.link_, static_cast<const char*>(parts.front().data()) + kHeaderSize, sizeof reader.link_);
    reader.offset_ += sizeof(wire::LinkHeader);
  }
  reader.left_ = reader.header_.count();
  return reader;
}

std::size_t FrameReader::size() const noexcept {
  std::size_t size = 0;
  for (const auto& part : *parts_) size += part.size();
  return size;
}

bool FrameReader::next(Message& message) {
  if (left_ == 0 || malformed_) return false;
  const auto& packed = parts_->front();
  const char* data = static_cast<const char*>(packed.data());
  if (packed.size() - offset_ < kEnvelopeSize) return malformed_ = true, false;
  std::memcpy(&message.envelope, data + offset_, kEnvelopeSize);
  offset_ += kEnvelopeSize;
  const std::size_t length = message.envelope.length();
  if (message.envelope.lane() != header_.lane() || message.envelope.kind() > wire::Kind::error) return malformed_ = true, false;
  if ((message.envelope.flags() & kFlagApart) != 0) {
    if (next_part_ >= parts_->size() || (*parts_)[next_part_].size() != length || length > kBodyLimit) return malformed_ = true, false;
    message.apart = &(*parts_)[next_part_++];
    message.body = bytes_of(message.apart->data(), length);
  } else {
    if (length > kInlineLimit || packed.size() - offset_ < padded(length)) return malformed_ = true, false;
    message.apart = nullptr;
    message.body = bytes_of(data + offset_, length);
    offset_ += padded(length);
  }
  --left_;
  return true;
}

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "common/base/block_pool.h"
#include "common/base/bytes.h"
#include "common/base/message_part.h"
#include "common/base/pack_buffer.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

inline constexpr std::uint16_t kFrameMagic = 0x424D;
inline constexpr std::uint8_t kFrameVersion = 1;
/// Bodies up to this ride behind their envelope, larger ones detached: the crossing point that was
/// measured (performance.md of the design).
inline constexpr std::size_t kInlineLimit = 32 * 1024;
/// A frame is closed when it has grown to this.
inline constexpr std::size_t kPackLimit = 64 * 1024;
/// A frame is closed, too, when it has this many bytes with the bodies that ride detached, so that
/// one frame cannot hold up the other lane for long.
inline constexpr std::size_t kFrameLimit = 256 * 1024;
/// The largest body of one message on the wire. Larger ones travel in chunks (ChunkSender).
inline constexpr std::size_t kBodyLimit = 1024 * 1024;
/// Bytes of data on the way in one direction of a connection (FrameHeader.credit). Half of it costs
/// some of the speed, twice as much gains none and makes control wait longer.
inline constexpr std::uint64_t kWindow = 512 * 1024;
/// A receiver returns credit after this many bytes at the latest.
inline constexpr std::uint64_t kCreditStep = kWindow / 4;
/// Whether a data frame may be sent when so many bytes are on the way: two large ones may be,
/// however small the window.
constexpr bool is_within_window(std::uint64_t on_the_way, std::size_t frame_bytes) noexcept {
  return on_the_way < kWindow || on_the_way < 2 * frame_bytes;
}
/// What a connection accepts as one message part: a full body, or a full pack and one inline body
/// more.
inline constexpr std::size_t kPartLimit = kBodyLimit + 64 * 1024;
/// The most parts of one frame; a frame with more is refused.
inline constexpr std::size_t kMostParts = 1024;

inline constexpr std::uint32_t kFlagDetached = 1;
inline constexpr std::uint32_t kFlagNoReturn = 2;
inline constexpr std::uint32_t kFlagCast = 4;
inline constexpr std::uint32_t kFlagChunk = 32;
inline constexpr std::uint32_t kFlagChunked = 64;
inline constexpr std::uint32_t kFlagShare = 128;
inline constexpr std::uint32_t kFlagDirect = 256;
inline constexpr std::uint16_t kFrameFlagLink = 1;

inline constexpr std::size_t kFrameHeaderSize = sizeof(wire::FrameHeader);
inline constexpr std::size_t kEnvelopeSize = sizeof(wire::Envelope);
static_assert(kFrameHeaderSize == 16 && sizeof(wire::LinkHeader) == 16 && kEnvelopeSize == 64,
              "the layout in bus.fbs is frozen");
static_assert(kPackLimit + kEnvelopeSize + kInlineLimit <= PackBuffer::kBlock,
              "a full pack and one message more fit into a block");

/// Bodies in a pack are padded to this.
constexpr std::size_t padded(std::size_t size) noexcept {
  return (size + 7) & ~std::size_t{7};
}

/// A copy with another length, lane and flags, made field by field: for an envelope that has just
/// been written to. One wide load over narrow stores would wait until these have left the CPU's
/// store buffer, which takes as long as all else that a short message costs.
inline wire::Envelope copy_fields(const wire::Envelope& from, std::uint32_t length, wire::Lane lane,
                                  std::uint32_t flags) noexcept {
  return {from.destination_proc(),
          from.destination_host(),
          from.source_proc(),
          from.source_host(),
          from.source_incarnation(),
          from.sequence(),
          length,
          from.port(),
          from.kind(),
          lane,
          from.hop(),
          from.role(),
          flags};
}
inline wire::Envelope copy_fields(const wire::Envelope& from) noexcept {
  return copy_fields(from, from.length(), from.lane(), from.flags());
}

/// One frame, ready to send: the packed part, and the bodies that ride detached.
struct Frame {
  std::vector<MessagePart> parts;
  wire::Lane lane = wire::Lane::control;
  /// Envelopes and bodies, padding and headers not counted.
  std::size_t bytes = 0;
  std::size_t count = 0;

  /// Written late, at the moment of sending: see FrameHeader.credit in bus.fbs.
  void set_credit(std::uint64_t credit);
  void set_link(std::uint64_t sequence, std::uint64_t ack);
  /// Another frame with the same bytes, not copied: once both are sent, neither header may be
  /// written any more.
  Frame shared();
  /// Another frame whose header may be written; bodies that ride detached are not copied.
  Frame renewed();
};

/// Packs envelopes and bodies of one lane into a frame (layout: schemas/bus.fbs).
class FrameWriter {
 public:
  explicit FrameWriter(wire::Lane lane, bool link = false) : lane_(lane), link_(link) {}
  /// Appends one message. The envelope's length and flag `detached` are set here. Bodies above
  /// kInlineLimit are copied into a part of their own.
  void add(const wire::Envelope& envelope, Bytes body);
  /// The same for a body that already is a message part, not copied.
  void add_detached(const wire::Envelope& envelope, MessagePart body);
  bool empty() const noexcept { return count_ == 0; }
  /// Envelopes and bodies, padding and headers not counted.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Whether the frame should be closed before anything else is added.
  bool is_full() const noexcept {
    return packed_.size() >= kPackLimit || bytes_ >= kFrameLimit ||
           1 + detached_.size() == kMostParts || count_ == UINT16_MAX;
  }
  /// The frame; the writer is empty afterwards.
  Frame finish();

 private:
  /// Where the next message goes that has so many bytes behind its envelope.
  char* extend(std::size_t bytes) {
    if (packed_.empty()) begin();
    return packed_.extend(kEnvelopeSize + bytes);
  }
  void begin();
  void write_envelope(char* at, const wire::Envelope& from, std::size_t length,
                      std::uint32_t flags);

  wire::Lane lane_;
  bool link_;
  PackBuffer packed_;
  std::vector<MessagePart> detached_;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

inline void FrameWriter::write_envelope(char* at, const wire::Envelope& from, std::size_t length,
                                        std::uint32_t flags) {
  new (at) wire::Envelope(copy_fields(from, static_cast<std::uint32_t>(length), lane_, flags));
  bytes_ += kEnvelopeSize + length;
  ++count_;
}

inline void FrameWriter::add(const wire::Envelope& envelope, Bytes body) {
  if (body.size() > kInlineLimit) {
    MessagePart part = BlockPool::part(body.size());
    std::memcpy(part.data(), body.data(), body.size());
    add_detached(envelope, std::move(part));
    return;
  }
  const std::size_t size = padded(body.size());
  char* at = extend(size);
  write_envelope(at, envelope, body.size(), envelope.flags() & ~kFlagDetached);
  at += kEnvelopeSize;
  if (size == 0) return;
  // The padding first: the body then covers all but what is to be zero.
  std::memset(at + size - 8, 0, 8);
  std::memcpy(at, body.data(), body.size());
}

/// Reads a received frame. Every length is compared before it is used; the bytes may stand at any
/// address.
class FrameReader {
 public:
  struct Message {
    wire::Envelope envelope;
    Bytes body;
    /// The part that the body is, when it rides detached: may be moved away.
    MessagePart* detached = nullptr;
  };

  /// `parts` without the routing id; must outlive the reader, and may be moved to another vector.
  /// Errors: malformed_message, version_mismatch.
  static Result<FrameReader> open(std::vector<MessagePart>& parts);
  const wire::FrameHeader& header() const noexcept { return header_; }
  const wire::LinkHeader& link() const noexcept { return link_; }
  /// The bytes of the whole frame.
  std::size_t size() const noexcept;
  bool is_link() const noexcept { return (header_.flags() & kFrameFlagLink) != 0; }
  /// The next message; false at the end, and when the rest of the frame is malformed (see
  /// is_malformed).
  bool next(Message& message);
  bool is_malformed() const noexcept { return malformed_; }
  /// Whether next() would find nothing more to read.
  bool is_at_end() const noexcept { return left_ == 0 || malformed_; }

 private:
  explicit FrameReader(std::vector<MessagePart>& parts)
      : parts_(parts.data()),
        part_count_(parts.size()),
        data_(parts_->data()),
        size_(parts_->size()) {}
  MessagePart* parts_;
  std::size_t part_count_;
  /// The bytes of the packed part.
  const char* data_;
  std::size_t size_;
  wire::FrameHeader header_;
  wire::LinkHeader link_;
  std::size_t offset_ = 0;
  std::size_t next_part_ = 1;
  std::size_t left_ = 0;
  bool malformed_ = false;
};

inline bool FrameReader::next(Message& message) {
  if (left_ == 0 || malformed_) return false;
  if (size_ - offset_ < kEnvelopeSize) return malformed_ = true, false;
  std::memcpy(&message.envelope, data_ + offset_, kEnvelopeSize);
  offset_ += kEnvelopeSize;
  const std::size_t length = message.envelope.length();
  if (message.envelope.lane() != header_.lane() || message.envelope.kind() > wire::Kind::error)
    return malformed_ = true, false;
  if ((message.envelope.flags() & kFlagDetached) != 0) {
    if (next_part_ >= part_count_ || parts_[next_part_].size() != length || length > kBodyLimit)
      return malformed_ = true, false;
    message.detached = &parts_[next_part_++];
    message.body = bytes_of(message.detached->data(), length);
  } else {
    if (length > kInlineLimit || size_ - offset_ < padded(length)) return malformed_ = true, false;
    message.detached = nullptr;
    message.body = bytes_of(data_ + offset_, length);
    offset_ += padded(length);
  }
  --left_;
  return true;
}

}  // namespace meshbus

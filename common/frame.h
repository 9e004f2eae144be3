#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "common/bytes.h"
#include "meshbus/result.h"
#include "wire/control_generated.h"

namespace meshbus {

inline constexpr std::uint16_t kFrameMagic = 0x424D;
inline constexpr std::uint8_t kFrameVersion = 1;
/// Bodies up to this ride behind their envelope, larger ones apart: the crossing point that was measured (performance.md of the design).
inline constexpr std::size_t kInlineLimit = 32 * 1024;
/// A frame is closed when it has grown to this.
inline constexpr std::size_t kPackLimit = 32 * 1024;
/// A frame is closed, too, when it has this many bytes with the bodies that ride apart, so that one frame cannot hold up the other lane for
/// long.
inline constexpr std::size_t kFrameLimit = 256 * 1024;
/// The largest body of one message on the wire.
inline constexpr std::size_t kBodyLimit = 1024 * 1024;
/// What a socket accepts as one message part (ZMQ_MAXMSGSIZE): a full body, or a full pack and one inline body more.
inline constexpr std::size_t kPartLimit = kBodyLimit + 64 * 1024;

inline constexpr std::uint32_t kFlagApart = 1;
inline constexpr std::uint32_t kFlagNoReturn = 2;
inline constexpr std::uint16_t kFrameFlagLink = 1;

/// One frame, ready to send: the packed part, and the bodies that ride apart.
struct Frame {
  std::vector<zmq::message_t> parts;
  wire::Lane lane = wire::Lane::control;
  /// Envelopes and bodies, padding and headers not counted.
  std::size_t bytes = 0;
  std::size_t count = 0;

  /// Written late, at the moment of sending: see FrameHeader.credit in bus.fbs.
  void set_credit(std::uint64_t credit);
  void set_link(std::uint64_t sequence, std::uint64_t ack);
  /// Another frame with the same bytes, not copied: once both are sent, neither header may be written any more.
  Frame shared();
  /// Another frame whose header may be written; bodies that ride apart are not copied.
  Frame renewed();
};

/// Packs envelopes and bodies of one lane into a frame (layout: schemas/bus.fbs).
class FrameWriter {
 public:
  explicit FrameWriter(wire::Lane lane, bool link = false) : lane_(lane), link_(link) {}
  /// Appends one message. The envelope's length and flag `apart` are set here. Bodies above kInlineLimit are copied into a part of their
  /// own.
  void add(wire::Envelope envelope, Bytes body);
  /// The same for a body that already is a message part, not copied.
  void add_apart(wire::Envelope envelope, zmq::message_t body);
  bool empty() const noexcept { return count_ == 0; }
  /// Envelopes and bodies, padding and headers not counted.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Whether the frame should be closed before anything else is added.
  bool is_full() const noexcept { return packed_.size() >= kPackLimit || bytes_ >= kFrameLimit || count_ == UINT16_MAX; }
  /// The frame; the writer is empty afterwards.
  Frame finish();

 private:
  wire::Lane lane_;
  bool link_;
  std::string packed_;
  std::vector<zmq::message_t> apart_;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

/// Reads a received frame. Every length is compared before it is used; the bytes may stand at any address.
class FrameReader {
 public:
  struct Message {
    wire::Envelope envelope;
    Bytes body;
    /// The part that the body is, when it rides apart: may be moved away.
    zmq::message_t* apart = nullptr;
  };

  /// `parts` without the routing id; must outlive the reader. Errors: malformed_message, version_mismatch.
  static Result<FrameReader> open(std::vector<zmq::message_t>& parts);
  const wire::FrameHeader& header() const noexcept { return header_; }
  const wire::LinkHeader& link() const noexcept { return link_; }
  /// Of the whole frame.
  std::size_t size() const noexcept;
  bool is_link() const noexcept { return (header_.flags() & kFrameFlagLink) != 0; }
  /// The next message; false at the end, and when the rest of the frame is malformed (see is_malformed).
  bool next(Message& message);
  bool is_malformed() const noexcept { return malformed_; }

 private:
  explicit FrameReader(std::vector<zmq::message_t>& parts) : parts_(&parts) {}
  std::vector<zmq::message_t>* parts_;
  wire::FrameHeader header_;
  wire::LinkHeader link_;
  std::size_t offset_ = 0;
  std::size_t next_part_ = 1;
  std::size_t left_ = 0;
  bool malformed_ = false;
};

}  // namespace meshbus

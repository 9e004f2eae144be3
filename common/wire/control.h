#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <flatbuffers/flatbuffers.h>

#include "common/base/bytes.h"
#include "meshbus/result.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// What a Control says besides its body.
struct ControlHead {
  std::uint64_t id = 0;
  std::uint32_t deadline_ms = 0;
  bool is_answer = false;
};

/// A well-formed control message that owns its bytes. Only decode() makes one, so code that holds
/// one need not check again.
class ControlMessage {
 public:
  /// Copies, because a message lies anywhere in its frame and FlatBuffers needs alignment.
  /// Errors: malformed_message; too_large when its lists, unpacked, exceed what a message may have
  /// (message_size.h), so that code that copies them needs no limit of its own.
  static Result<ControlMessage> decode(Bytes received);
  /// The table itself; needs wire/control_generated.h.
  const wire::Control* operator->() const noexcept;
  const wire::Control& operator*() const noexcept { return *operator->(); }
  /// What it says besides its body.
  ControlHead head() const noexcept;
  /// The body, if it is of that type; otherwise null.
  template <typename T>
  const T* body_as() const noexcept {
    return static_cast<const T*>(body_of(wire::BodyTag<T>::value));
  }
  /// "SpawnProcs"
  std::string body_name() const;

 private:
  explicit ControlMessage(std::unique_ptr<std::uint64_t[]> bytes) : bytes_(std::move(bytes)) {}
  /// The body, if it has that tag; otherwise null.
  const void* body_of(wire::Body tag) const noexcept;
  std::unique_ptr<std::uint64_t[]> bytes_;
};

/// A body to be sent, of any type of control message. It forgets the type, so that only the code
/// that makes one needs the header of its schema.
class ControlBody {
 public:
  /// `body` is one of the generated native types (wire::HelloT, wire::AckT, ...).
  template <typename NativeBody, typename Table = typename NativeBody::TableType>
  ControlBody(NativeBody body)  // NOLINT(google-explicit-constructor): a body is what is sent
      : tag_(wire::BodyTag<Table>::value),
        native_(std::make_shared<NativeBody>(std::move(body))),
        pack_([](flatbuffers::FlatBufferBuilder& builder, const void* native) {
          return Table::Pack(builder, static_cast<const NativeBody*>(native)).Union();
        }) {}
  wire::Body tag() const noexcept { return tag_; }
  /// "SpawnProcs"
  std::string name() const;
  flatbuffers::Offset<void> pack(flatbuffers::FlatBufferBuilder& builder) const {
    return pack_(builder, native_.get());
  }

 private:
  wire::Body tag_;
  std::shared_ptr<const void> native_;
  flatbuffers::Offset<void> (*pack_)(flatbuffers::FlatBufferBuilder&, const void*);
};

/// The bytes of a control message.
std::string encode_control(const ControlHead& head, const ControlBody& body);

/// The longest text for people that a message carries: a detail, a reason, what a peer said.
inline constexpr std::size_t kTextLimit = 4096;
/// The text, or as much of its beginning as fits, marked as cut; UTF-8 stays whole. A message that
/// quotes what it answers must not grow beyond what a frame takes.
std::string cut_text(std::string text, std::size_t limit = kTextLimit);

inline wire::ErrorCode to_wire(ErrorCode code) {
  return static_cast<wire::ErrorCode>(code);
}
/// A code that this side does not know becomes `internal`.
ErrorCode from_wire(wire::ErrorCode code);

inline std::string text_of(const flatbuffers::String* text) {
  return text == nullptr ? std::string() : text->str();
}

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "meshbus/result.h"
#include "wire/control_generated.h"

namespace meshbus {

/// A well-formed control message that owns its bytes. Only decode() makes one, so code that holds one need not check again.
class ControlMessage {
 public:
  /// Copies, because libzmq hands out TCP frames at any address and FlatBuffers needs alignment. Errors: malformed_message; too_large when
  /// its lists, unpacked, exceed what a message may have (message_size.h), so that who copies what it is told needs no limit of its own.
  static Result<ControlMessage> decode(Bytes received);
  const wire::Control* operator->() const noexcept { return wire::GetControl(bytes_.get()); }
  const wire::Control& operator*() const noexcept { return *wire::GetControl(bytes_.get()); }
  /// The body, if it is of that type; otherwise null.
  template <typename T>
  const T* body_as() const noexcept {
    return (*this)->body_as<T>();
  }
  /// "SpawnProcs"
  std::string body_name() const;

 private:
  explicit ControlMessage(std::unique_ptr<std::uint64_t[]> bytes) : bytes_(std::move(bytes)) {}
  std::unique_ptr<std::uint64_t[]> bytes_;
};

/// What a Control says besides its body.
struct ControlHead {
  std::uint64_t id = 0;
  std::uint32_t deadline_ms = 0;
  bool is_answer = false;
};

std::string encode_control(const ControlHead& head, wire::BodyUnion body);

/// The bytes of a control message: `body` is one of the generated native types (wire::HelloT, wire::AckT, ...).
template <typename NativeBody>
std::string encode_control(const ControlHead& head, NativeBody body) {
  wire::BodyUnion any;
  any.Set(std::move(body));
  return encode_control(head, std::move(any));
}

/// The longest text for people that a message carries: a detail, a reason, what a peer said.
inline constexpr std::size_t kTextLimit = 4096;
/// The text, or as much of its beginning as fits, marked as cut; UTF-8 stays whole. A message that quotes what it answers must not grow
/// beyond what a frame takes.
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

#include "common/wire/control.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "common/wire/frame.h"
#include "common/wire/message_size.h"
#include "wire/control_generated.h"

namespace meshbus {

static_assert(static_cast<int>(wire::ErrorCode::MAX) == static_cast<int>(ErrorCode::out_of_range),
              "types.fbs and meshbus/result.h list the same codes");
static_assert(static_cast<int>(wire::ErrorCode::not_exist) ==
              static_cast<int>(ErrorCode::not_exist));
static_assert(static_cast<int>(wire::ErrorCode::no_such_host) ==
              static_cast<int>(ErrorCode::no_such_host));
static_assert(static_cast<int>(wire::ErrorCode::exec_failed) ==
              static_cast<int>(ErrorCode::exec_failed));

Result<ControlMessage> ControlMessage::decode(Bytes received) {
  auto bytes = std::make_unique<std::uint64_t[]>(received.size() / sizeof(std::uint64_t) + 1);
  std::memcpy(bytes.get(), received.data(), received.size());
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.get()),
                                 received.size(), /*max_depth=*/16);
  if (received.size() < 8 || !wire::VerifyControlBuffer(verifier))
    return fail(ErrorCode::malformed_message,
                "not a control message (" + std::to_string(received.size()) + " bytes)");
  const std::size_t unpacked = unpacked_bytes(*wire::GetControl(bytes.get()));
  if (unpacked > kBodyLimit)
    return fail(ErrorCode::too_large,
                "a control message of " + std::to_string(received.size()) +
                    " bytes that unpacks to " + std::to_string(unpacked) +
                    ", because it refers to the same text many times; the limit is " +
                    std::to_string(kBodyLimit));
  return ControlMessage(std::move(bytes));
}

const wire::Control* ControlMessage::operator->() const noexcept {
  return wire::GetControl(bytes_.get());
}

ControlHead ControlMessage::head() const noexcept {
  return {.id = (*this)->id(),
          .deadline_ms = (*this)->deadline_ms(),
          .is_answer = (*this)->is_answer()};
}

const void* ControlMessage::body_of(wire::Body tag) const noexcept {
  return (*this)->body_type() == tag ? (*this)->body() : nullptr;
}

std::string ControlMessage::body_name() const {
  return wire::EnumNameBody((*this)->body_type());
}

std::string ControlBody::name() const {
  return wire::EnumNameBody(tag_);
}

std::string encode_control(const ControlHead& head, const ControlBody& body) {
  flatbuffers::FlatBufferBuilder builder(256);
  const flatbuffers::Offset<void> packed = body.pack(builder);
  wire::FinishControlBuffer(builder, wire::CreateControl(builder, head.id, head.deadline_ms,
                                                         head.is_answer, body.tag(), packed));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

std::string cut_text(std::string text, std::size_t limit) {
  constexpr std::string_view mark = "... (cut)";
  if (text.size() <= limit) return text;
  std::size_t size = limit - std::min(mark.size(), limit);
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  text.resize(size);
  return text.append(mark, 0, limit - size);
}

ErrorCode from_wire(wire::ErrorCode code) {
  return code > wire::ErrorCode::MAX ? ErrorCode::internal : static_cast<ErrorCode>(code);
}

}  // namespace meshbus

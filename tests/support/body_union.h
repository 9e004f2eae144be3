#pragma once

#include <string>

#include "common/wire/control.h"
#include "wire/control_generated.h"

namespace meshbus::test {

/// The bytes of a control message whose body is of any type, chosen at run time.
inline std::string encode_union(const ControlHead& head, const wire::BodyUnion& body) {
  flatbuffers::FlatBufferBuilder builder(256);
  const auto packed = body.Pack(builder);
  wire::FinishControlBuffer(builder, wire::CreateControl(builder, head.id, head.deadline_ms,
                                                         head.is_answer, body.type, packed));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace meshbus::test

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <flatbuffers/flatbuffers.h>

#include "common/base/bytes.h"

namespace meshbus {

/// Hosts that one message may name to be passed on to.
inline constexpr std::size_t kMostPassedOn = 4096;

/// The bytes of a table of relay.fbs.
template <typename Table>
std::string encode_table(const typename Table::NativeTableType& native) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

/// A table of relay.fbs; nothing when the bytes are not well-formed.
template <typename Table>
std::optional<typename Table::NativeTableType> decode_table(Bytes body) {
  // Bytes of a frame may stand at any address.
  const std::vector<std::uint8_t> bytes(body.begin(), body.end());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 8, 2 * kMostPassedOn);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return std::nullopt;
  typename Table::NativeTableType native;
  flatbuffers::GetRoot<Table>(bytes.data())->UnPackTo(&native);
  return native;
}

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <flatbuffers/flatbuffers.h>

#include "meshbus/actor.h"

/// Handlers of actors that take FlatBuffers tables. For programs that use FlatBuffers: no other
/// header of meshbus includes it.
namespace [[gnu::visibility("default")]] meshbus {

/// Makes a handler of one that takes a table: bytes are verified first, and what is no such table
/// is refused (malformed_message).
///
///     on("train", meshbus::flat<Batch>([this](meshbus::ActorContext&,
///                                             const meshbus::ActorMessage&, const Batch& batch) {
///          return std::to_string(model.train(batch));
///        }));
///
/// `identifier`: the table's file identifier, when it is to be there. The table is valid during the
/// handler.
template <typename Table, typename Function>
auto flat(Function handler, const char* identifier = nullptr) {
  return [handler = std::move(handler), identifier](
             ActorContext& context, const ActorMessage& message) mutable -> Result<std::string> {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(message.body.data());
    std::vector<std::uint64_t> aligned;
    if (reinterpret_cast<std::uintptr_t>(bytes) % alignof(std::uint64_t) != 0) {
      aligned.resize(message.body.size() / sizeof(std::uint64_t) + 1);
      std::memcpy(aligned.data(), bytes, message.body.size());
      bytes = reinterpret_cast<const std::uint8_t*>(aligned.data());
    }
    flatbuffers::Verifier verifier(bytes, message.body.size());
    if (!verifier.VerifyBuffer<Table>(identifier)) {
      return fail(ErrorCode::malformed_message, "message " + message.type.to_string() + " of " +
                                                    std::to_string(message.body.size()) +
                                                    " bytes is not the table that it should be");
    }
    const Table& table = *flatbuffers::GetRoot<Table>(bytes);
    if constexpr (std::is_void_v<std::invoke_result_t<Function&, ActorContext&, const ActorMessage&,
                                                      const Table&>>) {
      handler(context, message, table);
      return std::string();
    } else {
      return handler(context, message, table);
    }
  };
}

}  // namespace meshbus

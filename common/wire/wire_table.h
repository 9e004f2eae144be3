#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include <flatbuffers/flatbuffers.h>

#include "common/base/bytes.h"

namespace meshbus {

/// A table that travels as the body of a call or message, rather than as a control message.
template <typename Table>
std::string write_table(const typename Table::NativeTableType& native) {
  flatbuffers::FlatBufferBuilder builder(512);
  builder.Finish(Table::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

/// Bytes of a stranger, aligned, and verified as such a table.
template <typename Table>
class OpenedTable {
 public:
  explicit OpenedTable(Bytes bytes)
      : words_(std::make_unique<std::uint64_t[]>(bytes.size() / sizeof(std::uint64_t) + 1)) {
    std::memcpy(words_.get(), bytes.data(), bytes.size());
    const auto* const data = reinterpret_cast<const std::uint8_t*>(words_.get());
    flatbuffers::Verifier verifier(data, bytes.size(), 16, 1'000'000);
    if (verifier.VerifyBuffer<Table>(nullptr)) table_ = flatbuffers::GetRoot<Table>(data);
  }
  /// Null when it is not well-formed.
  const Table* get() const noexcept { return table_; }

 private:
  std::unique_ptr<std::uint64_t[]> words_;
  const Table* table_ = nullptr;
};

}  // namespace meshbus

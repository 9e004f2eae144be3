#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace meshbus {

/// Somebody else's bytes: never owned, never text unless the name says so.
using Bytes = std::string_view;

inline Bytes bytes_of(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}
inline Bytes bytes_of(const std::vector<std::uint8_t>& data) {
  return bytes_of(data.data(), data.size());
}
inline std::vector<std::uint8_t> to_vector(Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace meshbus

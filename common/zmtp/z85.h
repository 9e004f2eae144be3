#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace meshbus {

/// Bytes as text, five digits for four bytes (ZeroMQ RFC 32). `bytes` is a multiple of 4.
std::string z85_encode(std::span<const std::uint8_t> bytes);
/// The reverse. False when the text is not that of so many bytes; what `bytes` has then means
/// nothing.
bool z85_decode(std::string_view text, std::span<std::uint8_t> bytes);

}  // namespace meshbus

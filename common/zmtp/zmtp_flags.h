#pragma once

#include <cstddef>
#include <cstdint>

/// The flags that begin each frame of ZMTP 3 (RFC 23).
namespace meshbus::zmtp {

inline constexpr std::uint8_t kMore = 1;
inline constexpr std::uint8_t kLong = 2;
inline constexpr std::uint8_t kCommand = 4;

}  // namespace meshbus::zmtp

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/zmtp/curve_key.h"

namespace meshbus {

/// What CURVE's commands are made of (RFC 26): boxes, and the nonces that no two boxes of one key
/// share. A box is as long as its text and kMac bytes.
namespace curve {

inline constexpr std::size_t kMac = 16;
inline constexpr std::size_t kNonce = 24;
inline constexpr std::size_t kShortNonce = 8;
inline constexpr std::size_t kLongNonce = 16;
using Nonce = std::array<std::uint8_t, kNonce>;

/// "CurveZMQHELLO---" and the number.
Nonce short_nonce(std::string_view prefix, std::uint64_t number) noexcept;
/// "WELCOME-" and kLongNonce bytes that the command carries.
Nonce long_nonce(std::string_view prefix, std::string_view bytes) noexcept;
std::string random_bytes(std::size_t size);
/// Overwrites a secret that is not needed any more.
void wipe(std::string& secret) noexcept;
std::string put_number(std::uint64_t number);
/// Reads the first kShortNonce bytes.
std::uint64_t get_number(std::string_view bytes) noexcept;

/// The key that the holder of `own` shares with the holder of `other`. Nothing: `other` is no key.
std::optional<CurveKey> shared_key(const CurveKey& other, const CurveKey& own);
std::string seal(std::string_view text, const Nonce& nonce, const CurveKey& shared);
/// Nothing: the box was made with another key or nonce, or was changed.
std::optional<std::string> open(std::string_view box, const Nonce& nonce, const CurveKey& shared);

}  // namespace curve
}  // namespace meshbus

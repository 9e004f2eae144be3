#include "common/zmtp/curve_box.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace meshbus::curve {
namespace {

const std::uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

std::uint8_t* bytes(std::string& text) {
  return reinterpret_cast<std::uint8_t*>(text.data());
}

}  // namespace

Nonce short_nonce(std::string_view prefix, std::uint64_t number) noexcept {
  Nonce nonce{};
  std::memcpy(nonce.data(), prefix.data(), std::min(prefix.size(), kNonce - kShortNonce));
  for (std::size_t i = kNonce; i-- > kNonce - kShortNonce; number >>= 8)
    nonce[i] = static_cast<std::uint8_t>(number);
  return nonce;
}

Nonce long_nonce(std::string_view prefix, std::string_view own) noexcept {
  Nonce nonce{};
  std::memcpy(nonce.data(), prefix.data(), std::min(prefix.size(), kNonce - kLongNonce));
  std::memcpy(nonce.data() + kNonce - kLongNonce, own.data(), kLongNonce);
  return nonce;
}

std::string random_bytes(std::size_t size) {
  std::string random(size, '\0');
  randombytes_buf(random.data(), random.size());
  return random;
}

void wipe(std::string& secret) noexcept {
  sodium_memzero(secret.data(), secret.size());
}

std::string put_number(std::uint64_t number) {
  std::string text(kShortNonce, '\0');
  for (std::size_t i = kShortNonce; i-- > 0; number >>= 8) text[i] = static_cast<char>(number);
  return text;
}

std::uint64_t get_number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  for (const char c : text.substr(0, kShortNonce))
    number = number << 8 | static_cast<std::uint8_t>(c);
  return number;
}

std::optional<CurveKey> shared_key(const CurveKey& other, const CurveKey& own) {
  // A key is a number below 2^255: with its top bit set it would be a second name of another key.
  if ((other.data()[CurveKey::kSize - 1] & 0x80) != 0) return std::nullopt;
  CurveKey shared;
  if (crypto_box_beforenm(shared.data(), other.data(), own.data()) != 0) return std::nullopt;
  return shared;
}

std::string seal(std::string_view text, const Nonce& nonce, const CurveKey& shared) {
  std::string box(text.size() + kMac, '\0');
  crypto_box_easy_afternm(bytes(box), bytes(text), text.size(), nonce.data(), shared.data());
  return box;
}

std::optional<std::string> open(std::string_view box, const Nonce& nonce, const CurveKey& shared) {
  if (box.size() < kMac) return std::nullopt;
  std::string text(box.size() - kMac, '\0');
  if (crypto_box_open_easy_afternm(bytes(text), bytes(box), box.size(), nonce.data(),
                                   shared.data()) != 0)
    return std::nullopt;
  return text;
}

}  // namespace meshbus::curve

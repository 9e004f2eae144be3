#include "common/zmtp/curve_key.h"

#include <sodium.h>

#include <cstdlib>
#include <cstring>

#include "common/zmtp/z85.h"

namespace meshbus {
namespace {

/// Chooses the fastest code for this CPU and opens the kernel's random numbers, once.
void init_sodium() {
  static const int done = sodium_init();
  if (done < 0) std::abort();  // no random numbers
}

}  // namespace

CurveKey::CurveKey(std::string_view bytes) noexcept {
  std::memcpy(bytes_.data(), bytes.data(), kSize);
}

CurveKey::~CurveKey() {
  sodium_memzero(bytes_.data(), bytes_.size());
}

std::optional<CurveKey> CurveKey::from_text(std::string_view text) {
  CurveKey key;
  return z85_decode(text, key.bytes_) ? std::optional(key) : std::nullopt;
}

CurveKey CurveKey::random() {
  init_sodium();
  CurveKey key;
  randombytes_buf(key.data(), kSize);
  return key;
}

std::string CurveKey::to_text() const {
  return z85_encode(bytes_);
}

CurveKey CurveKey::make_public() const {
  init_sodium();
  CurveKey key;
  crypto_scalarmult_base(key.data(), data());
  return key;
}

bool CurveKey::operator==(const CurveKey& other) const noexcept {
  return sodium_memcmp(bytes_.data(), other.bytes_.data(), kSize) == 0;
}

CurveKeyPair CurveKeyPair::make() {
  init_sodium();
  CurveKeyPair pair;
  crypto_box_keypair(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

std::optional<CurveKeyPair> CurveKeyPair::from_text(std::string_view public_key,
                                                    std::string_view secret_key) {
  init_sodium();
  const auto known = CurveKey::from_text(public_key), secret = CurveKey::from_text(secret_key);
  if (!known || !secret) return std::nullopt;
  return CurveKeyPair{*known, *secret};
}

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <string_view>

/// 64-bit keys of identities: what envelopes carry instead of texts.
///
///     meshbus::key_of("tcp:h1:7420") == meshbus::HostAddr::parse("tcp:h1:7420")->key();
///
/// A key is neither a secret nor a proof: two texts may share one. A table by key keeps the text
/// too, and refuses the second of two different texts with the same key.
namespace [[gnu::visibility("default")]] meshbus {

/// The key of a canonical text: FNV-1a 64 (offset basis 0xcbf29ce484222325, prime 0x100000001b3)
/// over its bytes, then MurmurHash3's 64-bit finalizer (shifts by 33, factors 0xff51afd7ed558ccd
/// and 0xc4ceb9fe1a85ec53), so that every bit depends on every byte and any of them may be used as
/// a table index. A result of 0 becomes 1: 0 means "none" on the wire. Part of the protocol: the
/// same on every machine, for ever.
constexpr std::uint64_t key_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash ^= static_cast<std::uint8_t>(c);
    hash *= 0x100000001b3U;
  }
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccdU;
  hash ^= hash >> 33;
  hash *= 0xc4ceb9fe1a85ec53U;
  hash ^= hash >> 33;
  return hash == 0 ? 1 : hash;
}

}  // namespace meshbus

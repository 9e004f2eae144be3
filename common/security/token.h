#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/security/secret_bytes.h"
#include "meshbus/result.h"

namespace meshbus {

/// Proof of a proc's identity: a MAC with the secret of its host's warden over the proc's id and
/// incarnation (spec 13.3). Broker and agent share the secret, so that a restarted broker needs no
/// memory of announced procs.
class TokenMaker {
 public:
  static constexpr std::size_t kSecretSize = 32;
  /// Reads the secret from the start of a descriptor (the warden's sealed memory). Errors:
  /// io_error.
  static Result<TokenMaker> from_descriptor(int fd);
  explicit TokenMaker(std::string secret) : secret_(std::move(secret)) {}

  /// HMAC-SHA-256 over "PROCID#INCARNATION", 32 bytes.
  std::vector<std::uint8_t> make(std::string_view proc, std::uint64_t incarnation) const;
  /// Whether that is the token; takes the same time for every wrong one.
  bool verify(std::string_view proc, std::uint64_t incarnation,
              const std::vector<std::uint8_t>& token) const;

 private:
  SecretBytes secret_;
};

/// 64 random bits from the kernel, never 0: incarnations.
std::uint64_t random_u64();

}  // namespace meshbus

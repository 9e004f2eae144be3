#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "meshbus/result.h"
#include "wire/codes_generated.h"

namespace meshbus {

/// A public key that is known, and how far: one line of a .pub file.
///
///     public-key KEY expires=2027-01-31T12:00:00Z ceiling=client
///
/// A plain value.
struct KeyGrant {
  KeyGrant() = default;
  /// A key without bounds of its own.
  KeyGrant(std::string z85) : key(std::move(z85)) {}  // NOLINT(google-explicit-constructor)

  /// Reads the key and its attributes, which `between` separates. Errors: parse_error, which quotes
  /// attributes and never the key.
  static Result<KeyGrant> parse(std::string_view text, char between);
  std::string to_string(char between) const;
  /// Whether the key may not be used any more at that time (Unix seconds).
  bool is_expired(std::int64_t now) const noexcept { return expires && *expires <= now; }
  bool operator==(const KeyGrant&) const = default;

  /// Z85.
  std::string key;
  /// Unix seconds; nothing: never.
  std::optional<std::int64_t> expires = {};
  /// A host's key: the highest role that the broker of that host vouches for.
  wire::Role ceiling = wire::Role::operate;
};

/// "2027-01-31T12:00:00Z"
std::string rfc3339_text(std::int64_t unix_seconds);
/// Reads that, or a date alone, which means the end of that day in UTC. Errors: parse_error.
Result<std::int64_t> parse_rfc3339(std::string_view text);

}  // namespace meshbus

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "common/zmtp/curve_key.h"

namespace meshbus {

/// The messages of a CURVE connection after its handshake (RFC 26): each part, and each command, is
/// one MESSAGE command. Both directions number theirs; one that is not newer than the last before
/// it is refused. Pure.
class CurveTraffic {
 public:
  /// What a MESSAGE command is longer than its text: name, number, MAC and flags.
  static constexpr std::size_t kOverhead = 33;
  static constexpr std::uint8_t kMore = 1;
  static constexpr std::uint8_t kCommand = 2;

  /// `next`: the number of the first message of this end. `last`: the last number that the other
  /// end used in the handshake.
  CurveTraffic(bool is_server, const CurveKey& shared, std::uint64_t next, std::uint64_t last)
      : is_server_(is_server), shared_(shared), next_(next), last_(last) {}

  /// Writes the MESSAGE command that carries `text` to `command`, text.size() + kOverhead bytes.
  void seal(std::uint8_t flags, std::string_view text, char* command);
  /// Decrypts a MESSAGE command where it lies: its text begins kOverhead bytes from its begin.
  /// Returns the flags. Nothing: it is malformed, forged, or its number is old.
  std::optional<std::uint8_t> open(char* command, std::size_t size);

 private:
  bool is_server_;
  CurveKey shared_;
  std::uint64_t next_;
  std::uint64_t last_;
};

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/release.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// Versions of the control protocol that this build speaks. When to raise them:
/// docs/decisions/0008-versions-of-the-protocol.md.
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::uint16_t kOldestProtocolVersion = 1;
/// Optional features (Hello.capabilities, Welcome.capabilities; schemas/bus.fbs).
inline constexpr std::uint64_t kCapabilityResume = 1;
inline constexpr std::uint64_t kCapabilityCredit = 2;
inline constexpr std::uint64_t kCapabilityCast = 4;
inline constexpr std::uint64_t kCapabilityRelay = 8;
inline constexpr std::uint64_t kCapabilityDirect = 16;
/// Those of this build.
inline constexpr std::uint64_t kCapabilities =
    kCapabilityResume | kCapabilityCredit | kCapabilityCast | kCapabilityRelay | kCapabilityDirect;

/// What one side of a connection speaks. A plain value.
struct Protocol {
  std::uint16_t newest = kProtocolVersion;
  std::uint16_t oldest = kOldestProtocolVersion;
  /// The release of meshbus, for people; empty if the peer did not name it.
  std::string release = std::string(this_release());

  static Protocol of(const wire::Hello& hello);
  static Protocol of(const wire::Welcome& welcome);
  static Protocol of(const wire::Bootstrap& bootstrap);
  /// "version 1 (meshbus 0.1.0)", "versions 1 to 3"
  std::string to_string() const;
};

/// The newest version that both speak. Errors: version_mismatch, with what each of them speaks and
/// which one to update; the names are for people ("the broker of tcp:h1:7420").
Result<std::uint16_t> common_version(std::string_view name, const Protocol& protocol,
                                     std::string_view other_name, const Protocol& other);

/// Writes into a Hello what its sender speaks.
void announce(wire::HelloT& hello, const Protocol& protocol);

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <vector>

#include "common/base/bytes.h"
#include "meshbus/name.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// The name of a launcher, client-UUID, and the proof that its uuid was drawn and not chosen: 32
/// random bytes, of whose BLAKE2b-128 hash the first 8 bytes, little-endian, are the uuid (spec
/// 2.6). So nobody finds a name whose 64-bit key is that of somebody else, nor registers under a
/// name that it has only heard of. A plain value.
struct LauncherName {
  static constexpr std::size_t kProofSize = 32;
  /// A new one. It stays the same for the life of a launcher.
  static LauncherName draw();
  /// Writes the name and its proof into a Hello.
  void introduce(wire::HelloT& hello) const;

  Name name;
  std::vector<std::uint8_t> proof;
};

/// Whether those bytes prove that the name was drawn.
bool is_drawn(const Name& name, Bytes proof);

}  // namespace meshbus

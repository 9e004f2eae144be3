#pragma once

namespace meshbus {

/// What becomes of a connection whose other end has proven a key.
enum class KeyVerdict {
  refused,
  /// It comes in, and all connections with its key share what one key may have (KeyShares).
  bounded,
  /// It comes in, and may have as much as it likes: its key may start and stop programs here.
  trusted,
};

}  // namespace meshbus

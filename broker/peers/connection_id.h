#pragma once

#include <cstdint>

namespace meshbus {

/// A connection to the broker (Listener): never reused while it lives.
using ConnectionId = std::uint64_t;
/// Above every ConnectionId. Casts have credit accounts with numbers from here on (CastCredits).
inline constexpr ConnectionId kConnectionsEnd = ConnectionId{1} << 63;
/// Stands for none.
inline constexpr ConnectionId kNoConnection = kConnectionsEnd;

}  // namespace meshbus

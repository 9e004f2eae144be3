#pragma once

#include <cstdint>

namespace meshbus {

/// A mesh has at most so many ranks on one host: what a host refuses, launchers refuse at once.
inline constexpr std::uint64_t kMostRanksPerHost = 16384;

}  // namespace meshbus

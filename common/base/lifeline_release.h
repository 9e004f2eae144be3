#pragma once

#include <string_view>

namespace meshbus {

/// What a launcher says on the lifeline of a host that it has handed to another owner: from then on
/// the host does not end with its lifeline.
inline constexpr std::string_view kLifelineRelease = "release";

}  // namespace meshbus

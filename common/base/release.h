#pragma once

#include <string_view>

namespace meshbus {

/// The release of this build: "0.1.0".
std::string_view this_release() noexcept;

}  // namespace meshbus

#pragma once

#include <string_view>

namespace meshbus {

/// The name of a host itself where a message names what is owned (HandOver, OfferMesh, RenewLease).
/// No mesh has it: it is reserved.
inline constexpr std::string_view kHostResource = "service";

}  // namespace meshbus

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/text.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

/// What the texts of references to meshes share: `ADDR{,ADDR}@REGION`. Not a public header.
namespace meshbus::address_list {

/// The byte of the last '@' outside quotes, or npos. Addresses hold no quotes, so the first one
/// opens a label of the region.
std::size_t find_region(std::string_view text) noexcept;

/// Reads a whole part of addresses with commas between; none at all is fine, an empty one is not.
Result<std::vector<HostAddr>> parse(text::Scanner part);

void append(std::string& out, const std::vector<HostAddr>& hosts);

}  // namespace meshbus::address_list

#pragma once

#include <string>
#include <string_view>

namespace meshbus::cli {

/// The selector (cli/support/selector.h) that "MESH:RANKS" stands for: "train:0-3" is "train[0-3]",
/// "train:host=1" is "train[host=1]". Without a colon, or with brackets, it is one already. Pure.
std::string to_selector(std::string_view text);

}  // namespace meshbus::cli

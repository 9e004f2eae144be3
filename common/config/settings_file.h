#pragma once

#include <string_view>
#include <vector>

#include "common/config/config.h"

namespace meshbus {

/// The settings of an INI text, in its order: `spawn.ready = 30s`, or `ready = 30s` below
/// `[spawn]`. A line that begins with `#` or `;` is a comment. Keys are in lower case; a line
/// without `=` is a key without a value. Nothing is checked against the settings that there are.
std::vector<Setting> parse_settings_file(std::string_view text);

}  // namespace meshbus

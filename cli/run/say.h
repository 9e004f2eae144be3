#pragma once

#include <string>

namespace meshbus::cli {

/// Our own words on stderr must not keep us from acting: a reader that takes more than
/// 200 ms misses them.
void say(const std::string& text);

/// The same for whole lines, as they are.
void say_lines(const std::string& lines);

}  // namespace meshbus::cli

#pragma once

#include <string>

namespace meshbus::cli {

/// Empty, or what is wrong with the text of a duration: it has a unit.
std::string duration_problem(const std::string& text);

}  // namespace meshbus::cli

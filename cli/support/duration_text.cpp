#include "cli/support/duration_text.h"

#include <cctype>

#include "common/base/quantity.h"

namespace meshbus::cli {

std::string duration_problem(const std::string& text) {
  if (!parse_duration(text)) return "'" + text + "' is not a duration like 250ms, 30s, 2m or 1h";
  const bool has_unit = std::isalpha(static_cast<unsigned char>(text.back())) != 0;
  if (has_unit || text.find_first_not_of('0') == std::string::npos) return {};
  return "'" + text + "' has no unit: write " + text + "ms, " + text + "s or " + text + "m";
}

}  // namespace meshbus::cli

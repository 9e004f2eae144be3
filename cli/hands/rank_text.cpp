#include "cli/hands/rank_text.h"

namespace meshbus::cli {

std::string to_selector(std::string_view text) {
  const auto colon = text.find(':');
  const auto other = text.find_first_of("[=");
  if (colon == std::string_view::npos || other < colon) return std::string(text);
  const auto ranks = text.substr(colon + 1);
  if (ranks.empty()) return std::string(text.substr(0, colon));
  return std::string(text.substr(0, colon)) + "[" + std::string(ranks) + "]";
}

}  // namespace meshbus::cli

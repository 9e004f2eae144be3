#include "cli/hands/place_text.h"

namespace meshbus::cli {
namespace {

bool are_ranks(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789-,") == std::string_view::npos;
}

}  // namespace

PlaceText PlaceText::parse(std::string_view text) {
  const auto colon = text.find(':', text.find('[') < text.find(':') ? text.find(']') : 0);
  if (text.starts_with('/') || text.starts_with('.') || colon == std::string_view::npos ||
      colon == 0)
    return {{}, std::string(text)};
  const auto mesh = text.substr(0, colon);
  const auto rest = text.substr(colon + 1);
  const auto second = rest.find(':');
  if (second != std::string_view::npos && are_ranks(rest.substr(0, second)))
    return {std::string(mesh) + ":" + std::string(rest.substr(0, second)),
            std::string(rest.substr(second + 1))};
  return {std::string(mesh), std::string(rest)};
}

}  // namespace meshbus::cli

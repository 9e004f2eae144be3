#include "common/config/settings_file.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace meshbus {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view spaces(" \t\r\n\v\f");
  const auto begin = text.find_first_not_of(spaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

std::vector<Setting> parse_settings_file(std::string_view text) {
  std::vector<Setting> settings;
  std::string section;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[')) {
      const auto close = std::min(line.find(']'), line.size());
      section = in_lower_case(trim(line.substr(1, close - 1)));
      line = trim(line.substr(std::min(close + 1, line.size())));
    }
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    const auto equals = std::min(line.find('='), line.size());
    auto key = in_lower_case(trim(line.substr(0, equals)));
    if (!section.empty()) key.insert(0, section + ".");
    settings.emplace_back(std::move(key), trim(line.substr(std::min(equals + 1, line.size()))));
  }
  return settings;
}

}  // namespace meshbus

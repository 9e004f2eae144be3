#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/quantity.h"

namespace meshbus {

/// "0-3,8": ascending numbers (of CPUs, of NUMA nodes), as the kernel writes them.
inline std::string number_list(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += '-' + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

/// Reads that; "" is none. Nothing when it is something else, or not ascending, or a number is
/// `most` or more.
inline std::optional<std::vector<std::uint32_t>> parse_number_list(std::string_view text,
                                                                   std::uint32_t most) {
  std::vector<std::uint32_t> numbers;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto part = text.substr(0, comma);
    const auto dash = part.find('-');
    const auto first = parse_whole<std::uint32_t>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_whole<std::uint32_t>(part.substr(dash + 1));
    const bool is_ascending = numbers.empty() || (first && *first > numbers.back());
    if (!first || !last || *last < *first || *last >= most || !is_ascending) return std::nullopt;
    for (auto number = *first; number <= *last; ++number) numbers.push_back(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;
  }
  return numbers;
}

}  // namespace meshbus

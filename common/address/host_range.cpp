#include "common/address/host_range.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

namespace meshbus {
namespace {

/// All names that one word stands for have at most so many bytes: 1 KiB each where they are the
/// most.
constexpr std::size_t kMostBytes = kMostHostsListed * 1024;

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

tl::unexpected<Error> refuse_list(std::string why) {
  return fail(ErrorCode::configuration_error, std::move(why));
}

/// The parts between commas and blanks, but for those in brackets.
std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    if (c == '[') ++depth;
    if (c == ']') depth = std::max(depth - 1, 0);
    if (is_blank(c) || (c == ',' && depth == 0)) {
      if (!parts.back().empty()) parts.emplace_back();
      if (is_blank(c))
        depth =
            0;  // a bracket that was never closed is no reason to take all else for its contents
    } else {
      parts.back() += c;
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

/// The texts that "0-2,7" stands for. Nothing when that is no such thing.
Result<std::optional<std::vector<std::string>>> parse_range(std::string_view text) {
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    const auto dash = std::min(part.find('-'), part.size());
    const auto first_text = part.substr(0, dash);
    const auto last_text = dash == part.size() ? first_text : part.substr(dash + 1);
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const auto parse = [](std::string_view digits, std::uint64_t& to) {
      const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), to);
      return error == std::errc() && at == digits.data() + digits.size() && digits.size() < 10;
    };
    if (!parse(first_text, first) || !parse(last_text, last))
      return std::optional<std::vector<std::string>>();
    if (last < first) return refuse_list("the range " + std::string(part) + " goes backwards");
    if (last - first >= kMostHostsListed)
      return refuse_list("the range " + std::string(part) + " is longer than " +
                         std::to_string(kMostHostsListed));
    for (auto value = first; value <= last; ++value) {
      auto digits = std::to_string(value);
      if (digits.size() < first_text.size())
        digits.insert(0, first_text.size() - digits.size(), '0');
      values.push_back(std::move(digits));
    }
    begin = end + 1;
  }
  return std::optional(std::move(values));
}

/// Whether a bracket in the text would be read as a range.
bool has_range(std::string_view text) {
  for (auto open = text.find('['); open != std::string_view::npos;
       open = text.find('[', open + 1)) {
    const auto close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    const auto range = parse_range(text.substr(open + 1, close - open - 1));
    if (!range || *range) return true;
  }
  return false;
}

Result<std::vector<std::string>> expand(const std::string& word) {
  std::vector<std::string> texts{""};
  for (std::size_t at = 0; at < word.size();) {
    const auto close = word[at] == '[' ? word.find(']', at) : std::string::npos;
    std::optional<std::vector<std::string>> values;
    if (close != std::string::npos) {
      auto range = parse_range(std::string_view(word).substr(at + 1, close - at - 1));
      if (!range) return fail(range.error().within(word));
      values = std::move(*range);
    }
    if (!values) {
      for (auto& text : texts) text += word[at];
      ++at;
      continue;
    }
    if (texts.size() * values->size() > kMostHostsListed)
      return refuse_list(word + ": more than " + std::to_string(kMostHostsListed) + " hosts");
    if (texts.size() * values->size() * word.size() > kMostBytes)
      return refuse_list("a name of " + std::to_string(word.size()) + " bytes, and " +
                         std::to_string(texts.size() * values->size()) + " of its kind");
    std::vector<std::string> longer;
    for (const auto& text : texts) {
      for (const auto& value : *values) longer.push_back(text + value);
    }
    texts = std::move(longer);
    at = close + 1;
  }
  // "h[0,1[3]]" would become "h[0,13]", which names two other hosts when it is read again.
  if (std::ranges::any_of(texts, has_range))
    return refuse_list(word + ": a range may not be inside of another one");
  return texts;
}

}  // namespace

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (const auto& part : split_list(list)) {
    auto texts = expand(part);
    if (!texts) return texts;
    if (hosts.size() + texts->size() > kMostHostsListed)
      return refuse_list("more than " + std::to_string(kMostHostsListed) + " hosts");
    hosts.insert(hosts.end(), texts->begin(), texts->end());
  }
  return hosts;
}

}  // namespace meshbus

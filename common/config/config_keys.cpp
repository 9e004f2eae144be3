#include "common/config/config_keys.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "common/base/quantity.h"

namespace meshbus {
namespace {

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t comma = list.find(',');
    words.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return words;
    list.remove_prefix(comma + 1);
  }
}

/// The number behind a text, bounds aside.
std::optional<std::uint64_t> parse_unbounded(const KeyInfo& key, std::string_view text) {
  switch (key.kind) {
    case ValueKind::duration: return parse_quantity(text, kDurationUnits, key.unit);
    case ValueKind::bytes: return parse_quantity(text, kBytesUnits, "B");
    case ValueKind::count: return parse_whole(text);
    case ValueKind::boolean: {
      for (const std::string_view yes : {"true", "yes", "on", "1"}) {
        if (text == yes) return 1;
      }
      for (const std::string_view no : {"false", "no", "off", "0"}) {
        if (text == no) return 0;
      }
      return std::nullopt;
    }
    case ValueKind::word: {
      const auto words = words_of(key.unit);
      const auto found = std::find(words.begin(), words.end(), text);
      if (found == words.end()) return std::nullopt;
      return static_cast<std::uint64_t>(found - words.begin());
    }
    case ValueKind::path:
      if (!text.empty() && (!text.starts_with('/') || text.find('\0') != std::string_view::npos))
        return std::nullopt;
      return 0;
  }
  return std::nullopt;
}

}  // namespace

Result<std::uint64_t> parse_value(const KeyInfo& key, std::string_view text) {
  const auto value = parse_unbounded(key, text);
  const bool too_small = value && !key.least.empty() && *value < parse_unbounded(key, key.least);
  const bool too_large = value && !key.most.empty() && *value > parse_unbounded(key, key.most);
  if (!value || too_small || too_large)
    return fail(ErrorCode::parse_error, "expected " + expected_form(key));
  return *value;
}

std::string value_to_text(const KeyInfo& key, std::uint64_t value) {
  switch (key.kind) {
    case ValueKind::duration: return duration_to_text(std::chrono::milliseconds(value));
    case ValueKind::bytes: return bytes_to_text(value);
    case ValueKind::count: return std::to_string(value);
    case ValueKind::boolean: return value != 0 ? "true" : "false";
    case ValueKind::word: {
      const auto words = words_of(key.unit);
      return std::string(value < words.size() ? words[value] : words.front());
    }
    case ValueKind::path: break;
  }
  return {};
}

std::string expected_form(const KeyInfo& key) {
  const std::string bounds = " from " + std::string(key.least) + " to " + std::string(key.most);
  switch (key.kind) {
    case ValueKind::duration:
      return "a duration" + bounds + ", like " + std::string(kDurationExamples);
    case ValueKind::bytes:
      return "a number of bytes" + bounds + ", like " + std::string(kBytesExamples);
    case ValueKind::count: return "a whole number" + bounds;
    case ValueKind::boolean: return "true or false";
    case ValueKind::word: {
      std::string form = "one of";
      for (const std::string_view word : words_of(key.unit))
        form += (form == "one of" ? " " : ", ") + std::string(word);
      return form;
    }
    case ValueKind::path: return "an absolute path, or nothing";
  }
  return {};
}

std::string environment_name(const KeyInfo& key) {
  std::string name = "MESHBUS_";
  for (const char c : key.name)
    name += c == '.' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

const KeyInfo* find_key(std::string_view name) noexcept {
  const auto* found = std::find_if(kKeyTable.begin(), kKeyTable.end(),
                                   [&](const KeyInfo& key) { return key.name == name; });
  return found == kKeyTable.end() ? nullptr : found;
}

}  // namespace meshbus

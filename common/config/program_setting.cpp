#include "meshbus/program_setting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "common/config/config_keys.h"

namespace meshbus {
namespace {

constexpr KeyInfo kDuration{"", ValueKind::duration, "s", "0s", "0s", "8760h", ""};
constexpr KeyInfo kBoolean{"", ValueKind::boolean, "", "false", "", "", ""};
constexpr std::size_t kLongestText = 4 * 1024;

template <typename Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const auto* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

/// Nothing: the text is none of that type.
struct Parse {
  std::string_view text;

  std::optional<SettingValue> operator()(bool) const {
    const auto number = parse_value(kBoolean, text);
    if (!number) return std::nullopt;
    return *number != 0;
  }
  std::optional<SettingValue> operator()(std::int64_t) const {
    const auto number = number_from<std::int64_t>(text);
    if (!number) return std::nullopt;
    return *number;
  }
  std::optional<SettingValue> operator()(double) const {
    const auto number = number_from<double>(text);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    return *number;
  }
  std::optional<SettingValue> operator()(std::chrono::milliseconds) const {
    const auto number = parse_value(kDuration, text);
    if (!number) return std::nullopt;
    return std::chrono::milliseconds(*number);
  }
  std::optional<SettingValue> operator()(const std::string&) const {
    if (text.size() > kLongestText || text.find('\0') != std::string_view::npos)
      return std::nullopt;
    return std::string(text);
  }
};

struct Print {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    std::array<char, 64> text{};  // the shortest form that reads back as the same number
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
  }
  std::string operator()(std::chrono::milliseconds value) const {
    return value_to_text(kDuration,
                         static_cast<std::uint64_t>(std::max<std::int64_t>(value.count(), 0)));
  }
  std::string operator()(const std::string& value) const { return value; }
};

}  // namespace

std::string_view form_of(const SettingValue& value) noexcept {
  constexpr std::array<std::string_view, std::variant_size_v<SettingValue>> kForms = {
      "true or false", "a whole number", "a number", "a duration, like 250ms, 30s, 2m or 1h",
      "text"};
  return kForms[value.index()];
}

std::string to_text(const SettingValue& value) {
  return std::visit(Print{}, value);
}

Result<SettingValue> parse_setting(const SettingValue& like, std::string_view text) {
  if (auto value = std::visit(Parse{text}, like)) return std::move(*value);
  return fail(ErrorCode::configuration_error, "expected " + std::string(form_of(like)) +
                                                  ", found '" + std::string(text.substr(0, 100)) +
                                                  "'");
}

}  // namespace meshbus

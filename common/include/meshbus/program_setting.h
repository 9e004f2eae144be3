#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// What a setting of a program may be; its default says which of these it is. As text: `true`,
/// `-3`, `0.5`, `250ms` (a plain number is in seconds), any words.
using SettingValue =
    std::variant<bool, std::int64_t, double, std::chrono::milliseconds, std::string>;

/// "true or false", "a whole number", "a number", "a duration, like 250ms, 30s, 2m or 1h", "text":
/// what may stand in place of `value`.
std::string_view form_of(const SettingValue& value) noexcept;
/// As parse_setting() reads it.
std::string to_text(const SettingValue& value);
/// A value of the same type as `like`. Errors: configuration_error, which says what was expected
/// and what was found.
[[nodiscard]] Result<SettingValue> parse_setting(const SettingValue& like, std::string_view text);

}  // namespace meshbus

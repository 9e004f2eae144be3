#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "meshbus/result.h"

/// Durations and sizes as people write them: `250ms`, `30s`, `64KiB`. For settings, flags and
/// reports.
namespace meshbus {

/// How many of the smallest unit (milliseconds, bytes) one of this unit is.
struct Unit {
  std::string_view name;
  std::uint64_t size;
};
using Units = std::array<Unit, 4>;
// Largest first, so that the first one that divides a value gives the shortest text.
inline constexpr Units kDurationUnits = {{{"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
inline constexpr Units kBytesUnits = {
    {{"GiB", 1ULL << 30}, {"MiB", 1ULL << 20}, {"KiB", 1ULL << 10}, {"B", 1}}};
inline constexpr std::string_view kDurationExamples = "250ms, 30s, 2m or 1h";
inline constexpr std::string_view kBytesExamples = "4096, 64KiB, 1MiB or 1GiB";

/// A whole number that fits, and nothing else.
template <typename Number = std::uint64_t>
std::optional<Number> parse_whole(std::string_view text, int base = 10) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// `NUMBER[UNIT]` in the smallest unit; a number without a unit is in `plain` (one of the names).
/// Up to three decimal places are fine when the result is whole: `1.5s` is 1500 ms.
inline std::optional<std::uint64_t> parse_quantity(std::string_view text, const Units& units,
                                                   std::string_view plain) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits),
                         name = digits == text.size() ? plain : text.substr(digits);
  const auto* unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& one) { return one.name == name; });
  if (unit == units.end()) return std::nullopt;
  const std::size_t dot = number.find('.');
  const auto whole = parse_whole(number.substr(0, dot));
  // One less than what fits, so that adding the fraction cannot overflow; signed, because chrono
  // is.
  if (!whole ||
      *whole >= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / unit->size)
    return std::nullopt;
  const std::uint64_t value = *whole * unit->size;
  if (dot == std::string_view::npos) return value;
  const std::string_view places = number.substr(dot + 1);
  const auto fraction = parse_whole(places);
  if (!fraction || places.size() > 3) return std::nullopt;
  const std::uint64_t scale = places.size() == 1 ? 10 : places.size() == 2 ? 100 : 1000;
  if (*fraction * unit->size % scale != 0) return std::nullopt;
  return value + *fraction * unit->size / scale;
}

inline std::string quantity_to_text(std::uint64_t value, const Units& units) {
  const auto* unit = std::find_if(units.begin(), units.end(), [&](const Unit& one) {
    return value >= one.size && value % one.size == 0;
  });
  if (unit == units.end()) return "0" + std::string(units.back().name);
  return std::to_string(value / unit->size) + std::string(unit->name);
}

/// `250ms`, `30s`, `1.5m`, `1h`; a plain number is in `plain` ("ms", "s", "m" or "h"). Errors:
/// parse_error, saying what is expected.
inline Result<std::chrono::milliseconds> parse_duration(std::string_view text,
                                                        std::string_view plain = "s") {
  if (const auto value = parse_quantity(text, kDurationUnits, plain))
    return std::chrono::milliseconds(*value);
  return fail(ErrorCode::parse_error,
              "\"" + std::string(text) + "\" is not a duration; expected something like " +
                  std::string(kDurationExamples) + ", or a plain number in " + std::string(plain));
}

/// `4096`, `64KiB`, `1MiB`, `1GiB`. Errors: parse_error.
inline Result<std::uint64_t> parse_bytes(std::string_view text) {
  if (const auto value = parse_quantity(text, kBytesUnits, "B")) return *value;
  return fail(ErrorCode::parse_error, "\"" + std::string(text) +
                                          "\" is not a number of bytes; expected something like " +
                                          std::string(kBytesExamples));
}

/// The shortest text that parse_duration() reads as the same: `90s`, `2m`, `1500ms`.
inline std::string duration_to_text(std::chrono::milliseconds duration) {
  if (duration.count() == 0) return "0s";
  const std::string sign = duration.count() < 0 ? "-" : "";
  const auto magnitude =
      static_cast<std::uint64_t>(duration.count() < 0 ? -duration.count() : duration.count());
  return sign + quantity_to_text(magnitude, kDurationUnits);
}

/// The shortest text that parse_bytes() reads as the same: `64KiB`, `1000B`.
inline std::string bytes_to_text(std::uint64_t bytes) {
  return quantity_to_text(bytes, kBytesUnits);
}

}  // namespace meshbus

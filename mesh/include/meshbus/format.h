#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "meshbus/result.h"

/// Formatting with fmt, for programs that use it; nothing else of meshbus includes fmt or needs it.
///
///     #include "meshbus/format.h"
///     fmt::print("{:<20} {}\n", mesh.name(), mesh.region());  // to_string(), padded as a string
namespace [[gnu::visibility("default")]] meshbus {

/// Prints itself and parses what it printed: extents, points, regions, names, addresses,
/// references.
template <typename T>
concept HasText = requires(const T& value) {
  { value.to_string() } -> std::convertible_to<std::string>;
  { T::parse(std::string_view()) } -> std::same_as<Result<T>>;
};

}  // namespace meshbus

/// `fmt::print("{}", extent)`: what to_string() says, with the format of texts.
template <meshbus::HasText T>
struct fmt::formatter<T> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const T& value, Context& context) const {
    return fmt::formatter<std::string_view>::format(value.to_string(), context);
  }
};

template <>
struct fmt::formatter<meshbus::Error> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(const meshbus::Error& error, Context& context) const {
    return fmt::formatter<std::string_view>::format(error.to_string(), context);
  }
};

template <>
struct fmt::formatter<meshbus::ErrorCode> : fmt::formatter<std::string_view> {
  template <typename Context>
  auto format(meshbus::ErrorCode code, Context& context) const {
    return fmt::formatter<std::string_view>::format(meshbus::to_string(code), context);
  }
};

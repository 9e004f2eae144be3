#pragma once

/// The types of CLI11 that headers name; the library itself is included by .cpp files only.
// NOLINTNEXTLINE(readability-identifier-naming): it is theirs
namespace CLI {
class App;
class Option;
}  // namespace CLI

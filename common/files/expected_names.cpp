#include "common/files/expected_names.h"

#include <utility>

namespace meshbus {
namespace {

/// Empty: the path does not say it.
std::string_view name_in(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const auto name = path.substr(path.find_last_of('/') + 1);
  return name == "." || name == ".." ? std::string_view() : name;
}

}  // namespace

ExpectedNames::ExpectedNames(const std::vector<std::string>& paths, std::string substitute)
    : substitute_(std::move(substitute)) {
  for (const auto& path : paths) names_.emplace_back(name_in(path));
}

std::optional<std::string> ExpectedNames::take(std::string_view name) {
  // One that is left out (a socket) is passed over.
  while (at_ < names_.size()) {
    const auto& expected = names_[at_++];
    if (expected.empty()) return substitute_;
    if (expected == name) return expected;
  }
  return std::nullopt;
}

}  // namespace meshbus

#include "agent/hands/environment.h"

#include <algorithm>

namespace meshbus::hands {
namespace {

constexpr std::string_view kBootstrap = "MESHBUS_BOOTSTRAP";

std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

std::string_view find(const std::vector<std::string>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const std::string& entry) { return name_of(entry) == name; });
  return found == entries.end() ? std::string_view() : std::string_view(*found);
}

void set(std::vector<std::string>& entries, std::string_view entry) {
  std::erase_if(entries,
                [&](const std::string& other) { return name_of(other) == name_of(entry); });
  entries.emplace_back(entry);
}

/// The entries that have the prefix, without it.
std::vector<std::string> behind(std::string_view prefix, const std::vector<std::string>& entries) {
  std::vector<std::string> found;
  for (const auto& entry : entries) {
    if (entry.starts_with(prefix)) found.push_back(entry.substr(prefix.size()));
  }
  return found;
}

}  // namespace

std::vector<std::string> choose_environment(const std::vector<std::string>& of_process,
                                            const std::vector<std::string>& given) {
  const auto known = behind(kOfRank, given);
  const bool is_of_rank = find(of_process, "RANK") == find(known, "RANK") &&
                          find(of_process, "MESHBUS_MESH") == find(known, "MESHBUS_MESH");
  std::vector<std::string> chosen = is_of_rank ? of_process : known;
  std::erase_if(chosen, [](const std::string& entry) { return name_of(entry) == kBootstrap; });
  for (const auto& entry : behind(kOverride, given)) set(chosen, entry);
  return chosen;
}

}  // namespace meshbus::hands

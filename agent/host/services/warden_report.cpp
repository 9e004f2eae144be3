#include "agent/host/services/warden_report.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace meshbus::host {
namespace {

/// Cuts off what is before `end`, and that.
std::string_view cut(std::string_view& text, char end) {
  const auto at = std::min(text.find(end), text.size());
  const auto part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

template <typename Number>
bool read(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

std::optional<wire::UpgradeOutcome> outcome_of(std::string_view word) {
  for (auto outcome = wire::UpgradeOutcome::none; outcome <= wire::UpgradeOutcome::MAX;
       outcome = static_cast<wire::UpgradeOutcome>(static_cast<int>(outcome) + 1)) {
    if (word == wire::EnumNameUpgradeOutcome(outcome)) return outcome;
  }
  return std::nullopt;
}

}  // namespace

bool WardenReport::take(std::string_view word, std::string_view text) {
  if (word == "roles") {
    take_roles(text);
  } else if (word == "upgraded") {
    take_upgrade(text);
  } else {
    return false;
  }
  return true;
}

void WardenReport::take_roles(std::string_view text) {
  std::vector<wire::HostRoleT> roles;
  while (!text.empty()) {
    auto line = cut(text, '\n');
    wire::HostRoleT role;
    role.role = cut(line, ' ');
    if (!read(cut(line, ' '), role.pid)) return;
    const auto release = cut(line, ' ');
    if (release != "-") role.release = release;
    role.program = line;
    roles.push_back(std::move(role));
  }
  roles_ = std::move(roles);
}

void WardenReport::take_upgrade(std::string_view text) {
  auto line = cut(text, '\n');
  auto upgrade = std::make_unique<wire::HostUpgradeT>();
  const bool has_number = read(cut(line, ' '), upgrade->number);
  const auto outcome = outcome_of(cut(line, ' '));
  if (!has_number || !outcome || !read(cut(line, ' '), upgrade->started_ns) ||
      !read(line, upgrade->ended_ns))
    return;
  upgrade->outcome = *outcome;
  upgrade->programs = cut(text, '\n');
  upgrade->by = cut(text, '\n');
  upgrade->detail = text;
  upgrade_ = std::move(upgrade);
}

void WardenReport::add_to(wire::HostStateT& state) const {
  for (const auto& role : roles_) state.roles.push_back(std::make_unique<wire::HostRoleT>(role));
  if (upgrade_ != nullptr) state.upgrade = std::make_unique<wire::HostUpgradeT>(*upgrade_);
}

}  // namespace meshbus::host

#include "agent/proc/runtime/live_settings.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace meshbus::mesh_proc {
namespace {

constexpr const char* kFromEnvironment = "environment";

const std::array<const KeyInfo*, 5> kLiveKeys = {
    &keys::terminate_grace.info(), &keys::session_away.info(), &keys::handler_stuck.info(),
    &keys::message_limit.info(), &keys::log_level.info()};

}  // namespace

LiveSettings::LiveSettings(const Bootstrap& bootstrap, const Environment& environment,
                           bool has_log) {
  for (const KeyInfo* const live : kLiveKeys) {
    if (!has_log && live == &keys::log_level.info()) continue;
    Entry& entry = entries_.emplace_back();
    entry.key = live;
    entry.number = parse_value(*entry.key, entry.key->standard).value_or(0);
    for (const auto& [key, value] : bootstrap.config) {
      if (key != entry.key->name) continue;
      if (const auto number = parse_value(*entry.key, value))
        entry = {entry.key, *number, "launcher"};
    }
    const auto away = static_cast<std::uint64_t>(bootstrap.away.count());
    if (entry.key == &keys::session_away.info() && away != entry.number)
      entry = {entry.key, away, "host"};
    const auto variable = environment_name(*entry.key);
    const char* const own = environment(variable.c_str());
    if (own == nullptr) continue;
    if (const auto number = parse_value(*entry.key, own)) {
      entry = {entry.key, *number, kFromEnvironment};
    } else {
      log::warn(variable + "=" + own + " is left aside: " + number.error().detail());
    }
  }
}

const LiveSettings::Entry* LiveSettings::of(std::size_t index) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.key == &kKeyTable[index];
  });
  return found == entries_.end() ? nullptr : &*found;
}

std::chrono::milliseconds LiveSettings::grace() const {
  return std::chrono::milliseconds(of(keys::terminate_grace.index)->number);
}

std::chrono::milliseconds LiveSettings::away() const {
  return std::chrono::milliseconds(of(keys::session_away.index)->number);
}

std::chrono::milliseconds LiveSettings::handler_stuck() const {
  return std::chrono::milliseconds(of(keys::handler_stuck.index)->number);
}

std::uint64_t LiveSettings::message_limit() const {
  return of(keys::message_limit.index)->number;
}

std::optional<log::Level> LiveSettings::level() const {
  const auto* const entry = of(keys::log_level.index);
  return entry == nullptr ? std::nullopt
                          : log::find_level(value_to_text(*entry->key, entry->number));
}

Result<void> LiveSettings::change(const SettingChanges& changes) {
  auto changed = entries_;
  for (const auto& [key, value] : changes) {
    const auto entry =
        std::find_if(changed.begin(), changed.end(),
                     [&name = key](const Entry& one) { return one.key->name == name; });
    if (entry == changed.end()) {
      std::string all;
      for (const Entry& one : entries_)
        all += (all.empty() ? "" : ", ") + std::string(one.key->name);
      return fail(ErrorCode::configuration_error,
                  "a proc goes by " + all + " while it runs, and not by '" + key + "'" +
                      (find_key(key) == nullptr ? ", which is no setting at all" : ""));
    }
    const auto number = parse_value(*entry->key, value);
    if (!number)
      return fail(ErrorCode::configuration_error,
                  key + " = '" + value + "': " + number.error().detail());
    if (entry->source == kFromEnvironment) {
      return fail(ErrorCode::configuration_error,
                  key + " is decided by " + environment_name(*entry->key) +
                      " in the environment of the proc, which is stronger");
    }
    *entry = {entry->key, *number, "runtime"};
  }
  entries_ = changed;
  return {};
}

std::vector<ProcSetting> LiveSettings::list() const {
  std::vector<ProcSetting> settings;
  for (const Entry& entry : entries_)
    settings.push_back(
        {std::string(entry.key->name), value_to_text(*entry.key, entry.number), entry.source});
  return settings;
}

}  // namespace meshbus::mesh_proc

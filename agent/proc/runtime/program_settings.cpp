#include "agent/proc/runtime/program_settings.h"

#include <stdexcept>
#include <utility>

namespace meshbus::mesh_proc {

Error ProgramSettings::unknown(const std::map<std::string, Entry, std::less<>>& entries,
                               std::string_view name) {
  std::string all;
  for (const auto& [known, entry] : entries)
    all += (all.empty() ? "" : "; ") + known + " (" + std::string(form_of(entry.value)) +
           "): " + entry.help;
  return {ErrorCode::configuration_error,
          "the program has no setting '" + std::string(name.substr(0, 100)) + "'; " +
              (all.empty() ? "it has none at all" : "it has " + all)};
}

Result<SettingValue> ProgramSettings::read_one(
    const std::map<std::string, Entry, std::less<>>& entries, std::string_view name,
    std::string_view text) {
  const auto found = entries.find(name);
  if (found == entries.end()) return fail(unknown(entries, name));
  auto value = parse_setting(found->second.value, text);
  if (!value) return fail(value.error().within("setting " + found->first + " of the program"));
  return value;
}

Result<std::map<std::string, ProgramSettings::Entry, std::less<>>> ProgramSettings::make(
    const Declared& declared, const Values& launcher) {
  std::map<std::string, Entry, std::less<>> entries;
  for (const auto& [name, setting] : declared)
    entries.emplace(name, Entry{.value = setting.standard, .help = setting.help});
  for (const auto& [name, text] : launcher) {
    auto value = read_one(entries, name, text);
    if (!value) return fail(value.error());
    auto& entry = entries.find(name)->second;
    entry.value = std::move(*value);
    entry.source = "launcher";
  }
  return entries;
}

Result<void> ProgramSettings::check(const Declared& declared, const Values& launcher) {
  const auto made = make(declared, launcher);
  return made ? Result<void>() : fail(made.error());
}

ProgramSettings::ProgramSettings(const Declared& declared, const Values& launcher) {
  auto made = make(declared, launcher);
  if (!made) throw std::runtime_error(made.error().to_string());
  entries_ = std::move(*made);
}

Result<ProgramSettings::Changes> ProgramSettings::read(const Values& texts) const {
  const std::lock_guard lock(mutex_);
  Changes changes;
  for (const auto& [name, text] : texts) {
    auto value = read_one(entries_, name, text);
    if (!value) return fail(value.error());
    changes.emplace_back(name, std::move(*value));
  }
  return changes;
}

bool ProgramSettings::change(const Changes& changes) {
  const std::lock_guard lock(mutex_);
  const bool had_news = !news_.empty();
  for (const auto& [name, value] : changes) {
    auto& entry = entries_.find(name)->second;
    if (entry.value != value) news_.insert_or_assign(name, value);
    entry.value = value;
    entry.source = "runtime";
  }
  return !had_news && !news_.empty();
}

std::map<std::string, SettingValue> ProgramSettings::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

Result<SettingValue> ProgramSettings::get(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return fail(unknown(entries_, name));
  return found->second.value;
}

std::vector<ProcSetting> ProgramSettings::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<ProcSetting> settings;
  for (const auto& [name, entry] : entries_)
    settings.push_back({.key = std::string(kProgramKeys) + name,
                        .value = to_text(entry.value),
                        .source = entry.source,
                        .form = std::string(form_of(entry.value)),
                        .help = entry.help});
  return settings;
}

}  // namespace meshbus::mesh_proc

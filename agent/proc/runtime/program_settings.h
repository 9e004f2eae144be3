#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire/settings_call.h"
#include "meshbus/proc.h"
#include "meshbus/program_setting.h"

namespace meshbus::mesh_proc {

/// The settings that a program has declared, and their values in this proc (spec 6.5). The
/// strongest first: what was set at run time, its launcher's, the default. Any thread.
class ProgramSettings {
 public:
  using Declared = std::map<std::string, ProcProgram::Setting, std::less<>>;
  using Values = std::vector<std::pair<std::string, std::string>>;
  using Changes = std::vector<std::pair<std::string, SettingValue>>;

  /// `launcher`: what the launcher has set, by name. Errors: as read().
  static Result<void> check(const Declared& declared, const Values& launcher);
  /// Throws std::runtime_error where check() has an error.
  ProgramSettings(const Declared& declared, const Values& launcher);

  /// The values of these texts. Errors: configuration_error: a name that the program does not have,
  /// with those that it has; a text that is no value of it.
  Result<Changes> read(const Values& texts) const;
  /// Takes them over. True: there are news, and there were none.
  bool change(const Changes& changes);
  /// What was changed since the last call, with the last value of each.
  std::map<std::string, SettingValue> take_news();
  /// Errors: configuration_error: as read().
  Result<SettingValue> get(std::string_view name) const;
  /// Under the keys of the wire.
  std::vector<ProcSetting> list() const;

 private:
  struct Entry {
    SettingValue value;
    std::string help;
    const char* source = "default";
  };
  static Result<std::map<std::string, Entry, std::less<>>> make(const Declared& declared,
                                                                const Values& launcher);
  static Result<SettingValue> read_one(const std::map<std::string, Entry, std::less<>>& entries,
                                       std::string_view name, std::string_view text);
  static Error unknown(const std::map<std::string, Entry, std::less<>>& entries,
                       std::string_view name);

  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_, like what follows
  std::map<std::string, SettingValue> news_;
};

}  // namespace meshbus::mesh_proc

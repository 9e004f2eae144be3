#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "meshbus/proc_setting.h"
#include "meshbus/result.h"

/// The call by which the settings of a live proc are read and changed, as it travels
/// (schemas/settings.fbs). What is read comes from strangers: errors are malformed_message.
namespace meshbus {

inline constexpr std::uint32_t kSettingsPort = 0;
inline constexpr std::size_t kMostSettingChanges = 64;
/// The keys of a program's own settings begin with this, in calls and in what travels with a spawn.
inline constexpr std::string_view kProgramKeys = "program.";
/// A program has so many at most, so that all settings of a proc fit into one answer.
inline constexpr std::size_t kMostProgramSettings = 48;

/// Key and value.
using SettingChanges = std::vector<std::pair<std::string, std::string>>;

std::string encode_settings_call(const SettingChanges& changes);
Result<SettingChanges> decode_settings_call(Bytes bytes);
std::string encode_settings(const std::vector<ProcSetting>& settings);
Result<std::vector<ProcSetting>> decode_settings(Bytes bytes);

}  // namespace meshbus

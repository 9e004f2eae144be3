#pragma once

#include "common/base/exit_codes.h"

namespace meshbus::warden {

inline constexpr int kExitUnavailable = exits::kUnavailable;
inline constexpr int kExitSoftware = exits::kSoftware;
inline constexpr int kExitOsError = exits::kSystem;
inline constexpr int kExitOsFile = exits::kSystemFile;
inline constexpr int kExitConfig = exits::kConfig;

}  // namespace meshbus::warden

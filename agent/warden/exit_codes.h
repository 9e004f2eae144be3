#pragma once

namespace meshbus::warden {

// Process exit codes of sysexits(3).
inline constexpr int kExitUnavailable = 69;
inline constexpr int kExitSoftware = 70;
inline constexpr int kExitOsError = 71;
inline constexpr int kExitOsFile = 72;
inline constexpr int kExitConfig = 78;

}  // namespace meshbus::warden

#pragma once

namespace meshbus::warden {

// Process exit codes of sysexits(3).
inline constexpr int exit_unavailable = 69;
inline constexpr int exit_software = 70;
inline constexpr int exit_os_error = 71;
inline constexpr int exit_os_file = 72;
inline constexpr int exit_config = 78;

}  // namespace meshbus::warden

#pragma once

#include <string>
#include <string_view>

#include "cli/doctor/host_facts.h"

namespace meshbus::cli::doctor {

/// The scope of the login session in the text of /proc/self/cgroup: "session-3.scope". Empty: none.
std::string session_scope(std::string_view cgroups);
/// What a text of logind.conf(5) says last of a key; `standard` when it says nothing.
std::string logind_setting(std::string_view text, std::string_view key, std::string_view standard);

/// The session of this process, by the files of systemd-logind. `run_directory`: where its host
/// has its sockets.
SessionFacts gather_session(const std::string& run_directory);

}  // namespace meshbus::cli::doctor

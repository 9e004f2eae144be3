#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace meshbus::bench {

/// Runs a program with /dev/null as stdin and stdout to its end, and says how long that took;
/// nothing when it was still there at the limit (it is ended then). Throws std::runtime_error when
/// it cannot be started or does not exit with 0.
std::optional<std::chrono::nanoseconds> time_of(std::vector<std::string> argv,
                                                std::chrono::milliseconds limit);

/// Where in PATH a program is.
std::optional<std::string> find_in_path(const std::string& program);

}  // namespace meshbus::bench

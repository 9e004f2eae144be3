#pragma once

#include <string>
#include <vector>

namespace meshbus::hands {

/// Writes these files and folders to stdout, as common/files has it. Returns the exit code.
int send_files(const std::vector<std::string>& paths);

/// Puts what comes by stdin at that place. Only the end of stdin ends it early, so that what is not
/// complete is removed. Returns the exit code; stderr says what is wrong.
int receive_files(const std::string& place);

}  // namespace meshbus::hands

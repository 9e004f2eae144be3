#pragma once

#include <filesystem>
#include <string>

namespace meshbus {

/// What is in a file, as far as it can be read: empty when it cannot. Never throws for that, unlike
/// an iterator over the stream, which does when a process ends while its file in /proc is read.
std::string file_text(const std::filesystem::path& path);

}  // namespace meshbus

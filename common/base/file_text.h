#pragma once

#include <filesystem>
#include <string>

namespace meshbus {

/// Returns the text of a file, as far as it can be read; it is empty when the file cannot be. This
/// does not throw when a process ends while its file in /proc is read, as an iterator over the
/// stream does.
std::string file_text(const std::filesystem::path& path);

}  // namespace meshbus

#include "agent/os/run_directory.h"

#include <poll.h>

#include <filesystem>
#include <system_error>
#include <vector>

namespace meshbus::os {
namespace {

namespace fs = std::filesystem;

/// False: something is left.
bool try_to_remove(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != kLockFile) entries.push_back(entry->path());
  }
  for (const auto& entry : entries) fs::remove_all(entry, error);
  fs::remove(path / kLockFile, error);
  fs::remove(path, error);
  return !fs::exists(path, error);
}

}  // namespace

void remove_run_directory(const std::string& path, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!try_to_remove(path) && std::chrono::steady_clock::now() < until) ::poll(nullptr, 0, 1);
}

}  // namespace meshbus::os

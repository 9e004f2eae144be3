#pragma once

#include <chrono>
#include <string>

#include <sys/stat.h>

namespace meshbus::host {

/// The directory in which ranks leave files for their host. Most ranks leave none, so looking for
/// each one's files at its end is saved while nothing was put into the directory.
class RankFolder {
 public:
  /// A directory that is there, only for us.
  explicit RankFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const noexcept { return path_; }
  /// Whether no file is there. False when that is not known. Takes one stat() as a rule.
  bool is_empty();

 private:
  std::string path_;
  timespec empty_since_{};  ///< The time of the directory when it was found empty; 0: it was not.
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace meshbus::host

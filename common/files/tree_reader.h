#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus {

/// Reads files and folders into a stream of records (file_records.h). Symbolic links are followed
/// where a path is named, and copied as such below.
class TreeReader {
 public:
  explicit TreeReader(std::vector<std::string> paths) : paths_(std::move(paths)) {}

  /// Appends what comes next, some 64 KiB. False: that was all. What cannot be read ends the stream
  /// with a record that says so; see problem().
  bool next(std::string& out);
  /// Why it ended early; empty: it did not.
  const std::string& problem() const noexcept { return problem_; }
  std::uint64_t files() const noexcept { return files_; }
  /// Bytes of contents.
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  struct Folder {
    std::unique_ptr<DIR, int (*)(DIR*)> entries{nullptr, ::closedir};
    struct stat status{};
    std::string path;
  };
  /// Begins with what is called so below that descriptor.
  void begin(int folder, const std::string& name, const std::string& path,
             const std::string& called, bool follow, std::string& out);
  void begin_folder(UniqueFd fd, const struct stat& status, const std::string& path,
                    const std::string& called, std::string& out);
  void read_file(std::string& out);
  void read_folder(std::string& out);
  void fail_with(const std::string& text, std::string& out);

  std::vector<std::string> paths_;
  std::size_t at_ = 0;
  bool has_begun_ = false;
  bool is_over_ = false;
  UniqueFd file_;
  std::string file_path_;
  struct stat file_status_{};
  std::vector<Folder> folders_;
  std::string problem_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace meshbus

#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "meshbus/result.h"

namespace meshbus {

/// Makes way for a listener at `path`. A socket file that nobody listens on any more is removed.
/// Abstract names (`@...`) need nothing. Errors: io_error (somebody listens there, the file is no
/// socket or is another user's, the folder is missing or everybody may replace files in it).
Result<void> clear_unix_path(std::string_view path);

/// The socket file of a listener, removed at the end of the scope unless another one has taken its
/// path. Empty for abstract names.
class SocketFile {
 public:
  SocketFile() = default;
  /// Call it right after binding.
  explicit SocketFile(std::string_view path);
  SocketFile(SocketFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), device_(other.device_), inode_(other.inode_) {}
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile();

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A new folder of this user alone among the temporary files, removed at the end of the scope if it
/// is empty.
class PrivateFolder {
 public:
  /// Errors: io_error.
  static Result<PrivateFolder> make();
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();
  const std::string& path() const noexcept { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// While it lives, files of this process are made for its user alone: umask 0077. For the moment of
/// binding only, as the mask is the process's.
class PrivateFiles {
 public:
  PrivateFiles();
  ~PrivateFiles();
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;

 private:
  unsigned old_;
};

}  // namespace meshbus

#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "meshbus/result.h"

namespace meshbus {

/// Makes way for a listener at `path`: libzmq unlinks whatever is there before it binds, a living broker's socket too, so this must be
/// asked first. A socket file that nobody listens on any more is removed. Abstract names (`@...`) need nothing. Errors: io_error (somebody
/// listens there, the file is no socket or is another user's, the folder is missing or everybody may replace files in it).
Result<void> clear_unix_path(std::string_view path);

/// The socket file of a listener, removed at the end of the scope unless another one has taken its path. Empty for abstract names.
class SocketFile {
 public:
  SocketFile() = default;
  /// Call it right after binding.
  explicit SocketFile(std::string_view path);
  SocketFile(SocketFile&& other) noexcept : path_(std::exchange(other.path_, {})), device_(other.device_), inode_(other.inode_) {}
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile();

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// While it lives, files of this process are made for its user alone: umask 0077. For the moment of binding only, as the mask is the
/// process's.
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

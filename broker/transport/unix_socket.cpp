#include "broker/transport/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "common/base/unique_fd.h"
#include "common/base/unix_address.h"

namespace meshbus {
namespace {

tl::unexpected<Error> refuse(const std::string& path, const std::string& why) {
  return fail(ErrorCode::io_error, "cannot listen on unix:" + path + ": " + why);
}

/// 0, or the errno of connecting to that socket.
int try_connect(const std::string& path) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  const UnixAddress address(path);
  return ::connect(fd.get(), address.get(), address.size()) == 0 ? 0 : errno;
}

}  // namespace

Result<void> clear_unix_path(std::string_view text) {
  if (text.empty() || text.starts_with('@')) return {};
  const std::string path(text);
  const std::string folder = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0)
    return refuse(path, "folder " + folder + ": " + std::strerror(errno) +
                            "; make it first, for this user alone");
  const bool is_open_to_all = (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
  if (is_open_to_all)
    return refuse(path, "everybody may replace files in " + folder +
                            "; use a folder of this user alone (mode 0700)");

  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return {};
    return refuse(path, std::strerror(errno));
  }
  if (!S_ISSOCK(info.st_mode))
    return refuse(path, "there is a file that is no socket; remove it or choose another path");
  if (info.st_uid != ::geteuid() && ::geteuid() != 0)
    return refuse(path, "the socket there belongs to user " + std::to_string(info.st_uid));
  const int error = try_connect(path);
  // A full backlog (EAGAIN) is somebody alive as well.
  if (error == 0 || error == EAGAIN)
    return refuse(path, "another process serves it; stop that one or choose another path");
  if (error != ECONNREFUSED)
    return refuse(
        path, std::string("cannot find out whether somebody serves it: ") + std::strerror(error));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return refuse(path, std::string("cannot remove the socket of a process that ended: ") +
                            std::strerror(errno));
  return {};
}

SocketFile::SocketFile(std::string_view path) {
  struct stat info{};
  if (!path.starts_with('/') || ::lstat(std::string(path).c_str(), &info) != 0) return;
  path_ = path;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

SocketFile::~SocketFile() {
  struct stat info{};
  if (!path_.empty() && ::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_)
    ::unlink(path_.c_str());
}

Result<PrivateFolder> PrivateFolder::make() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "meshbus-XXXXXX").string();
  if (error || ::mkdtemp(path.data()) == nullptr)
    return fail(ErrorCode::io_error, "cannot make a folder for a unix socket, " + path + ": " +
                                         (error ? error.message() : std::strerror(errno)));
  return PrivateFolder(std::move(path));
}

PrivateFolder::~PrivateFolder() {
  if (!path_.empty()) ::rmdir(path_.c_str());
}

PrivateFiles::PrivateFiles() : old_(::umask(0077)) {}
PrivateFiles::~PrivateFiles() {
  ::umask(static_cast<mode_t>(old_));
}

}  // namespace meshbus

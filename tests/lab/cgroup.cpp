#include "tests/lab/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"

namespace meshbus::test {

namespace fs = std::filesystem;

namespace {

constexpr const char* prefix = "meshbus-lab-";

/// The directory of this process's own cgroup, or nothing.
std::string own_cgroup() {
  std::string mount, own;
  std::istringstream mounts(read_file("/proc/self/mounts"));
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, point, type;
    if (fields >> device >> point >> type && type == "cgroup2") mount = point;
  }
  std::istringstream cgroups(read_file("/proc/self/cgroup"));
  for (std::string line; std::getline(cgroups, line);) {
    if (line.starts_with("0::/")) own = line.substr(3);
  }
  return mount.empty() || own.empty() || own.starts_with("/..") ? ""
                                                                : mount + (own == "/" ? "" : own);
}

void remove_stale(const std::string& parent) {
  std::error_code ignored;
  for (fs::directory_iterator at(parent, ignored), end; at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix) && is_gone(std::atoi(name.c_str() + std::strlen(prefix))))
      remove_cgroup(at->path().string());
  }
}

}  // namespace

std::string make_lab_cgroup() {
  static int count = 0;
  const std::string parent = own_cgroup();
  if (parent.empty()) return {};
  remove_stale(parent);
  std::string path =
      parent + "/" + prefix + std::to_string(::getpid()) + "-" + std::to_string(++count);
  if (::mkdir(path.c_str(), 0755) != 0) return {};
  // In a cgroup of type "domain invalid", or without the kernel's freezer, it would be of no use.
  if (::access((path + "/cgroup.freeze").c_str(), W_OK) == 0 &&
      ::access((path + "/cgroup.kill").c_str(), W_OK) == 0)
    return path;
  ::rmdir(path.c_str());
  return {};
}

void make_cgroup(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    throw std::system_error(errno, std::generic_category(), "mkdir " + path);
}

bool remove_cgroup(const std::string& path) {
  std::error_code ignored;
  for (fs::directory_iterator at(path, ignored), end; at != end; at.increment(ignored)) {
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) remove_cgroup(at->path().string());
  }
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

void write_cgroup(const std::string& path, const char* file, const char* text) {
  const std::string name = path + "/" + file;
  const int fd = ::open(name.c_str(), O_WRONLY | O_CLOEXEC);
  const bool is_written = fd >= 0 && ::write(fd, text, std::strlen(text)) >= 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!is_written) throw std::system_error(error, std::generic_category(), "write " + name);
}

bool has_event(const std::string& path, const std::string& line) {
  return ("\n" + read_file(path + "/cgroup.events")).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace meshbus::test

#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace meshbus::test {

/// A new directory that every user can enter, and every directory above it; those of tests and of
/// the sources are closed to others. Removed at the end of the scope.
class OpenDir {
 public:
  OpenDir() {
    std::string name = "/tmp/meshbus-open-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr || ::chmod(name.c_str(), 0755) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot make " + name);
    path_ = name;
  }
  ~OpenDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OpenDir(const OpenDir&) = delete;
  OpenDir& operator=(const OpenDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace meshbus::test

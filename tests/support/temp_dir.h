#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace meshbus::test {

/// A new directory that is removed, with what is in it, at the end of the scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  /// Writes a file and returns its path; mode 0644, or 0755 for a script.
  std::string write(std::string_view name, std::string_view text, bool executable = false) const;

 private:
  std::filesystem::path path_;
};

/// The whole file, or what could be read of it; empty when there is none.
std::string read_file(const std::filesystem::path& path);

}  // namespace meshbus::test

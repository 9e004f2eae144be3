#include "tests/support/temp_dir.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace meshbus::test {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "t-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;  // what stays is reported by the leftover check
  fs::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::string_view text, bool executable) const {
  const fs::path path = path_ / name;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    throw std::system_error(errno, std::generic_category(), "cannot write " + path.string());
  fs::permissions(path, static_cast<fs::perms>(executable ? 0755 : 0644));
  return path.string();
}

std::string read_file(const fs::path& path) {
  // Not a stream: files in /proc fail in the middle of reading when their process ends, and streams
  // throw then.
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Small, on the stack and not cleared: every test case reads all of /proc several times, and
  // ThreadSanitizer accounts for each byte.
  std::array<char, 4096> buffer;
  for (ssize_t got; fd >= 0 && (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  if (fd >= 0) ::close(fd);
  return text;
}

}  // namespace meshbus::test

#include "common/base/file_text.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace meshbus {
namespace {

TEST_CASE("file_text: all of a file, and nothing of one that cannot be read") {
  const test::TempDir dir;
  const std::string text("two\nlines \0 and a zero", 22);
  std::ofstream(dir / "file", std::ios::binary) << text;
  CHECK(file_text(dir / "file") == text);
  const std::ofstream empty(dir / "empty");
  CHECK(file_text(dir / "empty").empty());
  CHECK(file_text(dir / "missing").empty());
  CHECK(file_text("/proc/self/stat").starts_with(std::to_string(::getpid())));
  // It can be opened, and then read() fails, as for a process of /proc that has just ended.
  CHECK(file_text(dir.path()).empty());
}

}  // namespace
}  // namespace meshbus

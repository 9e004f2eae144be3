#include "agent/host/lifecycle/rank_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace meshbus::host {
namespace {

using meshbus::test::TempDir;

void put(const std::filesystem::path& file) {
  std::ofstream(file) << "a beat";
}

/// As if nothing had come or gone for a minute.
void settle(const TempDir& dir) {
  timespec now{};
  REQUIRE(::clock_gettime(CLOCK_REALTIME, &now) == 0);
  now.tv_sec -= 60;
  const timespec times[2] = {now, now};
  REQUIRE(::utimensat(AT_FDCWD, dir.path().c_str(), times, 0) == 0);
}

TEST_CASE("rank_folder: a file is seen however soon it comes") {
  const TempDir dir;
  RankFolder folder(dir.path().string());
  // Whether it is empty is not known yet: a file that comes in the same tick changes no time.
  CHECK_FALSE(folder.is_empty());
  put(dir / "at once");
  CHECK_FALSE(folder.is_empty());
}

TEST_CASE("rank_folder: a file is seen in a directory that was empty for long") {
  const TempDir dir;
  settle(dir);
  RankFolder folder(dir.path().string());
  CHECK(folder.is_empty());
  CHECK(folder.is_empty());
  put(dir / "later");
  CHECK_FALSE(folder.is_empty());
  CHECK_FALSE(folder.is_empty());
}

TEST_CASE("rank_folder: a directory that is not there is not known to be empty") {
  RankFolder folder("/nowhere/at/all");
  CHECK_FALSE(folder.is_empty());
}

}  // namespace
}  // namespace meshbus::host

#include "agent/host/streams/log_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "tests/support/temp_dir.h"

namespace meshbus::host {
namespace {

namespace fs = std::filesystem;
using meshbus::test::TempDir;

std::string content(const fs::path& path) {
  return meshbus::test::read_file(path);
}

/// The files of a stream in order, the one being written last.
std::vector<fs::path> files(const std::string& path) {
  std::set<fs::path> aside;
  for (const auto& entry : fs::directory_iterator(fs::path(path).parent_path())) {
    if (entry.path().string().starts_with(path + ".")) aside.insert(entry.path());
  }
  std::vector<fs::path> all(aside.begin(), aside.end());
  if (fs::exists(path)) all.emplace_back(path);
  return all;
}

TEST_CASE(
    "log_file: all bytes, in files of that size at most that end at line ends, the oldest go") {
  const TempDir dir;
  const std::string path = dir / "3.out";
  LogFile file(path, {.size = 100, .files = 3});
  std::string all;
  for (int i = 0; i < 60; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    file.append(all.size(), line);
    all += line;
    std::string kept;
    for (const auto& one : files(path)) {
      CHECK(fs::file_size(one) <= 100);
      CHECK(content(one).ends_with("\n"));
      kept += content(one);
    }
    CHECK(files(path).size() <= 3);
    REQUIRE(all.ends_with(kept));
    CHECK(file.begin() == all.size() - kept.size());
    CHECK(file.end() == all.size());
  }
  CHECK(files(path).size() == 3);
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("log_file: exact for random binary pieces, and readable at every offset") {
  const TempDir dir;
  std::minstd_rand random(9);
  const std::string path = dir / "0.err";
  LogFile file(path, {.size = 5000, .files = 1000});
  std::string all;
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 700, '\0');
    for (char& c : bytes) c = random() % 300 == 0 ? '\n' : static_cast<char>(random());
    file.append(all.size(), bytes);
    all += bytes;
  }
  std::string joined;
  for (const auto& one : files(path)) joined += content(one);
  CHECK((joined == all));
  for (int i = 0; i < 200; ++i) {
    const auto offset = random() % all.size();
    const auto piece = file.read(offset, 100);
    CHECK(piece.offset == offset);
    CHECK_FALSE(piece.bytes.empty());
    CHECK((all.substr(offset, piece.bytes.size()) == piece.bytes));
  }
  CHECK(file.read(all.size(), 10).bytes.empty());
}

TEST_CASE("log_file: the last lines are found, over several files") {
  const TempDir dir;
  LogFile file(dir / "0.out", {.size = 50, .files = 100});
  std::string all;
  for (int i = 100; i < 200; ++i) {
    file.append(all.size(), std::to_string(i) + "\n");
    all += std::to_string(i) + "\n";
  }
  CHECK(file.offset_of_last(30, 400) == 400 - 30 * 4);
  CHECK(file.offset_of_last(3, 40) == 28);
  CHECK(file.offset_of_last(1000, 400) == 0);
}

TEST_CASE(
    "log_file: another agent goes on where the first one was killed, without a gap and without "
    "writing twice") {
  const TempDir dir;
  const std::string path = dir / "7.out";
  const std::string first = "one\ntwo\nthree\nfour\nfive\n", second = "six\nseven\neight\n";
  for (const std::size_t kept : {1U, 2U, 100U}) {
    CAPTURE(kept);
    for (const auto& old : files(path)) fs::remove(old);
    std::uint64_t begun = 0;
    const auto note = [&](std::uint64_t begin) { begun = begin; };
    {
      LogFile file(path, {.size = 10, .files = kept}, note);
      file.append(0, first);
    }
    LogFile file(path, {.size = 10, .files = kept}, note);
    file.resume(begun, LogFile::find_parts(dir.path().string())["7.out"]);
    CHECK(file.end() == first.size());
    file.append(20, first.substr(20) + second);
    std::string joined;
    for (const auto& one : files(path)) joined += content(one);
    CHECK((first + second).ends_with(joined));
    CHECK(joined.size() == file.end() - file.begin());
    CHECK(file.end() == first.size() + second.size());
    CHECK(file.read(begun, 3).bytes == (first + second).substr(begun, 3));
    if (kept == 100) CHECK(joined == first + second);
  }
}

TEST_CASE(
    "log_file: an agent that was killed before the first byte of a file was in it leaves nothing "
    "that counts") {
  const TempDir dir;
  const std::string path = dir / "7.out";
  {
    LogFile file(path, {.size = 10, .files = 5});
    file.append(0, "one\ntwo\n");
  }
  fs::rename(path, path + ".000000000000000");
  std::ofstream(path).close();
  LogFile file(path, {.size = 10, .files = 5});
  file.resume(0,
              LogFile::find_parts(dir.path().string())["7.out"]);  // it was not told of the second
  CHECK(file.end() == 8);
  file.append(4, "two\nthree\n");
  CHECK(file.read(8, 100).bytes == "three\n");
  CHECK(content(path) == "three\n");
}

TEST_CASE(
    "log_file: what cannot be written is left out, and what comes later stands at its offset") {
  const TempDir dir;
  const std::string path = dir / "0.out";
  fs::create_directory(path);  // in its way
  LogFile file(path, {.size = 1000, .files = 10});
  file.append(0, "lost\n");
  CHECK(file.end() == 0);
  CHECK(file.read(0, 100).bytes.empty());
  fs::remove(path);
  file.append(5, "lost too\n");  // not tried again so soon
  CHECK(file.end() == 0);
  // A gap begins a new file.
  LogFile other(dir / "1.out", {.size = 1000, .files = 10});
  other.append(0, "abc\n");
  other.append(10, "def\n");
  CHECK(files(dir / "1.out").size() == 2);
  CHECK(other.read(4, 100).offset == 10);
  CHECK(other.read(4, 100).bytes == "def\n");
}

TEST_CASE("log_file: no file of somebody's choosing is followed or overwritten") {
  const TempDir dir;
  dir.write("precious", "precious");
  fs::create_symlink(dir / "precious", dir / "0.out");
  LogFile file(dir / "0.out", {});
  file.append(0, "x\n");
  CHECK(content(dir / "precious") == "precious");
  CHECK_FALSE(make_log_directory("/proc/nowhere", "m-13Se1Maqzryj").has_value());
  CHECK(make_log_directory(dir / "a/b", "m-13Se1Maqzryj").has_value());
  CHECK(fs::is_directory(dir / "a/b/m-13Se1Maqzryj"));
  const auto refused = make_log_directory(dir / "precious", "m-13Se1Maqzryj");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::configuration_error);
  CHECK(refused.error().detail().find("logs.directory") != std::string::npos);
}

}  // namespace
}  // namespace meshbus::host

// Files as a stream of records (meshbus cp).
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/files/tree_reader.h"
#include "common/files/tree_writer.h"
#include "tests/support/temp_dir.h"

using namespace meshbus;
using meshbus::test::TempDir;
namespace fs = std::filesystem;

namespace {

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string stream_of(const std::vector<std::string>& paths) {
  TreeReader reader(paths);
  std::string all;
  while (reader.next(all)) {
  }
  return all;
}

/// What comes of writing this, cut into pieces.
Result<void> write_stream(const std::string& stream, const fs::path& place,
                          std::size_t piece = 1000) {
  auto writer = TreeWriter::open(place.string());
  if (!writer) return fail(writer.error());
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    if (auto added = writer->add(std::string_view(stream).substr(at, piece)); !added) return added;
  }
  if (!writer->is_done()) return fail(ErrorCode::io_error, "it is not complete");
  return {};
}

std::size_t entries_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::string head(FileRecord type, const std::string& name = {}, const std::string& bytes = {}) {
  std::string record;
  add_file_record(record, {.type = type, .mode = type == FileRecord::begin ? kFileFormat : 0600U},
                  name, bytes);
  return record;
}

}  // namespace

TEST_CASE("trees: a folder arrives as it was, with modes and times and links") {
  TempDir folder;
  const fs::path from = folder.path() / "from";
  fs::create_directories(from / "a" / "empty");
  std::string big;
  for (int i = 0; big.size() < 300'000; ++i) big += std::to_string(i);
  write_file(from / "a" / "big", big);
  write_file(from / "none", "");
  fs::permissions(from / "a" / "big", fs::perms(0640));
  fs::permissions(from / "none", fs::perms(0755));
  fs::create_symlink("a/big", from / "link");
  const auto time = fs::file_time_type::clock::now() - std::chrono::hours(1000);
  fs::last_write_time(from / "a" / "big", time);
  fs::last_write_time(from / "a", time);
  ::mkfifo((from / "pipe").c_str(), 0600);

  const auto stream = stream_of({from.string()});
  for (const std::size_t piece : {std::size_t{7}, std::size_t{100'000}, stream.size()}) {
    const auto to = folder.path() / ("to-" + std::to_string(piece));
    const auto written = write_stream(stream, to, piece);
    REQUIRE_MESSAGE(written, (written ? "" : written.error().to_string()));
    CHECK((read_file(to / "a" / "big") == big));
    CHECK(fs::status(to / "a" / "big").permissions() == fs::perms(0640));
    CHECK(fs::status(to / "none").permissions() == fs::perms(0755));
    CHECK(fs::last_write_time(to / "a" / "big") == time);
    CHECK(fs::last_write_time(to / "a") == time);
    CHECK(fs::read_symlink(to / "link") == "a/big");
    CHECK(fs::is_directory(to / "a" / "empty"));
    CHECK_FALSE(fs::exists(fs::symlink_status(to / "pipe")));
    CHECK(entries_in(to) == 3);
  }
}

TEST_CASE("trees: into a folder that is there it goes under its own name, else under the new one") {
  TempDir folder;
  write_file(folder.path() / "file", "text");
  fs::create_directory(folder.path() / "there");
  const auto stream = stream_of({(folder.path() / "file").string()});
  CHECK(write_stream(stream, folder.path() / "there"));
  CHECK(read_file(folder.path() / "there" / "file") == "text");
  CHECK(write_stream(stream, folder.path() / "new"));
  CHECK(read_file(folder.path() / "new") == "text");
  // What is there is replaced.
  write_file(folder.path() / "new", "old and longer");
  CHECK(write_stream(stream, folder.path() / "new"));
  CHECK(read_file(folder.path() / "new") == "text");
  const auto two =
      stream_of({(folder.path() / "file").string(), (folder.path() / "there").string()});
  const auto refused = write_stream(two, folder.path() / "one-name");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == ErrorCode::refused);
  ::mkfifo((folder.path() / "pipe").c_str(), 0600);
  const auto special = write_stream(stream, folder.path() / "pipe");
  REQUIRE_FALSE(special);
  CHECK(special.error().code() == ErrorCode::refused);
  CHECK(fs::is_fifo(folder.path() / "pipe"));
  const auto no_folder = write_stream(stream, folder.path() / "no" / "such");
  REQUIRE_FALSE(no_folder);
  CHECK(no_folder.error().code() == ErrorCode::not_exist);
  CHECK_FALSE(write_stream(stream, folder.path() / "no-folder/"));
}

TEST_CASE("trees: what is broken off leaves nothing, and what was there stays") {
  TempDir folder;
  write_file(folder.path() / "file", std::string(200'000, 'x'));
  const auto stream = stream_of({(folder.path() / "file").string()});
  fs::create_directory(folder.path() / "to");
  write_file(folder.path() / "to" / "file", "old");
  CHECK_FALSE(write_stream(stream.substr(0, 150'000), folder.path() / "to"));
  CHECK(read_file(folder.path() / "to" / "file") == "old");
  CHECK(entries_in(folder.path() / "to") == 1);
}

TEST_CASE("trees: what cannot be read is said by the other side") {
  TempDir folder;
  const auto stream = stream_of({(folder.path() / "missing").string()});
  const auto written = write_stream(stream, folder.path());
  REQUIRE_FALSE(written);
  CHECK(written.error().detail().ends_with("missing: No such file or directory"));
}

TEST_CASE("trees: a hostile stream writes nothing outside of its place") {
  TempDir folder;
  const auto to = folder.path() / "to";
  const auto outside = folder.path() / "outside";
  fs::create_directories(to);
  fs::create_directories(outside);
  const auto begin = head(FileRecord::begin);
  for (const std::string name : {"../x", "a/b", "..", ".", ""}) {
    const auto written = write_stream(begin + head(FileRecord::file, name), to);
    REQUIRE_FALSE(written);
    CHECK(written.error().code() == ErrorCode::malformed_message);
  }
  // A link, and then a folder of that name.
  const auto through = begin + head(FileRecord::link, "way", outside.string()) +
                       head(FileRecord::directory, "way") + head(FileRecord::file, "x") +
                       head(FileRecord::end_file);
  CHECK_FALSE(write_stream(through, to));
  CHECK(entries_in(outside) == 0);
  const auto inside = begin + head(FileRecord::directory, "real") +
                      head(FileRecord::end_directory) + head(FileRecord::link, "other", "real") +
                      head(FileRecord::directory, "other");
  const auto followed = write_stream(inside, to);
  REQUIRE_FALSE(followed);
  CHECK(followed.error().detail().find("other") != std::string::npos);
  // Nor one that was there before.
  fs::create_directory_symlink(outside, to / "mine");
  CHECK_FALSE(write_stream(begin + head(FileRecord::directory, "mine") +
                               head(FileRecord::file, "x") + head(FileRecord::end_file),
                           to));
  CHECK(entries_in(outside) == 0);
  // A link, and then a file of that name: the link is replaced.
  write_file(outside / "target", "safe");
  const auto over = begin + head(FileRecord::link, "f", (outside / "target").string()) +
                    head(FileRecord::file, "f") + head(FileRecord::data, "", "evil") +
                    head(FileRecord::end_file) + head(FileRecord::end);
  CHECK(write_stream(over, to));
  CHECK(read_file(outside / "target") == "safe");
  CHECK(read_file(to / "f") == "evil");
  CHECK(entries_in(outside) == 1);
  for (const auto& nonsense : {std::string(100, 'x'), begin + head(FileRecord::data, "", "x"),
                               begin + head(FileRecord::end_directory), head(FileRecord::end),
                               begin + head(FileRecord::file, "a") + head(FileRecord::file, "b"),
                               begin + head(FileRecord::directory, "d") + head(FileRecord::end),
                               begin + head(FileRecord::end) + head(FileRecord::end)})
    CHECK_FALSE(write_stream(nonsense, to));
}

TEST_CASE("trees: only what was asked for comes, under the name that the receiver gives") {
  TempDir folder;
  const auto begin = head(FileRecord::begin);
  const auto file = [](const std::string& name) {
    return head(FileRecord::file, name) + head(FileRecord::data, "", name) +
           head(FileRecord::end_file);
  };
  const auto end = head(FileRecord::end);
  const auto write = [&](const std::string& stream, const std::vector<std::string>& asked) {
    auto writer = TreeWriter::open(folder.path().string(), ExpectedNames(asked, "3"));
    REQUIRE(writer);
    return writer->add(stream);
  };
  for (const auto& hostile :
       {begin + file(".bashrc") + end, begin + head(FileRecord::directory, ".ssh"),
        begin + head(FileRecord::link, ".bashrc", "core"), begin + file("core") + file("core"),
        begin + file("core") + file(".bashrc")}) {
    const auto written = write(hostile, {"/tmp/core"});
    REQUIRE_FALSE(written);
    CHECK(written.error().code() == ErrorCode::refused);
    CHECK(written.error().detail().find("not asked for") != std::string::npos);
  }
  CHECK(entries_in(folder.path()) == 1);
  CHECK(read_file(folder.path() / "core") == "core");
  // What is below has the names that it has there.
  CHECK(write(begin + head(FileRecord::directory, "logs") + file("any") +
                  head(FileRecord::end_directory) + end,
              {"a/logs//"}));
  CHECK(read_file(folder.path() / "logs" / "any") == "any");
  CHECK(write(begin + head(FileRecord::directory, ".ssh") + file("any") +
                  head(FileRecord::end_directory) + file("b") + end,
              {".", "left-out", "b"}));
  CHECK(read_file(folder.path() / "3" / "any") == "any");
  CHECK(read_file(folder.path() / "b") == "b");
  CHECK_FALSE(fs::exists(folder.path() / ".ssh"));
}

TEST_CASE("expected_names: the last component of each path, in order, each once") {
  ExpectedNames names({"/a/b/", "..", "x/.", "/", "c", "d"}, "7");
  CHECK(names.take("b") == "b");
  CHECK(names.take(".profile") == "7");
  CHECK(names.take("x") == "7");
  CHECK(names.take("root") == "7");
  CHECK(names.take("d") == "d");  // c was left out
  CHECK_FALSE(names.take("c"));
  CHECK_FALSE(names.take("b"));
}

TEST_CASE("trees: links that lead outside of the copy are left out, and said") {
  TempDir folder;
  const auto begin = head(FileRecord::begin);
  const auto in_folder = [&](const std::string& target) {
    return begin + head(FileRecord::directory, "a") + head(FileRecord::directory, "b") +
           head(FileRecord::link, "link", target) + head(FileRecord::end_directory) +
           head(FileRecord::end_directory) + head(FileRecord::end);
  };
  const auto notes_of = [](const std::string& stream, const fs::path& place) {
    auto writer = TreeWriter::open(place.string());
    REQUIRE(writer);
    REQUIRE(writer->add(stream));
    CHECK(writer->is_done());
    return writer->notes();
  };
  int number = 0;
  const auto lands = [&](const std::string& target, bool is_named) {
    const auto place = folder.path() / std::to_string(++number);
    if (!is_named) fs::create_directory(place);
    const auto notes = notes_of(in_folder(target), place);
    const auto link = (is_named ? place : place / "a") / "b" / "link";
    const bool is_there = fs::is_symlink(link);
    if (is_there) CHECK(fs::read_symlink(link) == target);
    CHECK(notes.size() == (is_there ? 0 : 1));
    if (!is_there) CHECK(notes.front().find("b/link is left out") != std::string::npos);
    return is_there;
  };
  for (const auto* inside : {"x", "./x", "../x", "..", "x/y", "nowhere", "...", "..x"}) {
    CAPTURE(inside);
    CHECK(lands(inside, true));
    CHECK(lands(inside, false));
  }
  // Two steps up are the folder that was named, which is the copy's only when it was there.
  CHECK(lands("../../x", false));
  CHECK_FALSE(lands("../../x", true));
  // Behind a name: that may be a link to another folder, whose parent is elsewhere.
  for (const auto* outside :
       {"/etc/passwd", "/", "../../../x", "x/../y", "../x/../../y", "./a/.."}) {
    CAPTURE(outside);
    CHECK_FALSE(lands(outside, true));
    CHECK_FALSE(lands(outside, false));
  }
  // The only thing that comes is a link.
  CHECK(notes_of(begin + head(FileRecord::link, "l", "x") + head(FileRecord::end),
                 folder.path() / "only")
            .size() == 1);
  CHECK_FALSE(fs::is_symlink(folder.path() / "only"));
}

TEST_CASE("trees: a folder that is there keeps its mode, and what it has") {
  TempDir folder;
  fs::create_directories(folder.path() / "from" / "sub");
  fs::permissions(folder.path() / "from" / "sub", fs::perms(0700));
  write_file(folder.path() / "from" / "sub" / "new", "new");
  fs::create_directories(folder.path() / "to" / "from" / "sub");
  write_file(folder.path() / "to" / "from" / "sub" / "old", "old");
  const auto shared = fs::perms(01777);
  fs::permissions(folder.path() / "to" / "from" / "sub", shared);
  CHECK(write_stream(stream_of({(folder.path() / "from").string()}), folder.path() / "to"));
  const auto sub = folder.path() / "to" / "from" / "sub";
  CHECK(fs::status(sub).permissions() == shared);
  CHECK(read_file(sub / "old") == "old");
  CHECK(read_file(sub / "new") == "new");
}

TEST_CASE("trees: a full disk is said, with the name of the file, and leaves nothing") {
  TempDir folder;
  write_file(folder.path() / "file", std::string(200'000, 'x'));
  const auto stream = stream_of({(folder.path() / "file").string()});
  fs::create_directory(folder.path() / "to");
  // No file of this process may be longer: as a full disk, the write fails.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{100'000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto written = write_stream(stream, folder.path() / "to");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(written);
  CHECK(written.error().code() == ErrorCode::io_error);
  CHECK(written.error().detail().ends_with("to/file: File too large"));
  CHECK(entries_in(folder.path() / "to") == 0);
}

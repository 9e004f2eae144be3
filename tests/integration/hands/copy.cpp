// `meshbus cp` (spec 16.5).
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/integration/hands/work.h"
#include "tests/integration/needs.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

/// Ranks that live in folders of their own.
struct Folders {
  TempDir dir;
  Work work{"mkdir " + dir.path().string() + "/$RANK; cd " + dir.path().string() +
            "/$RANK; exec sleep 300"};

  fs::path of(int rank) const { return dir.path() / std::to_string(rank); }
  Finished cp(const Words& places) const {
    Words words = {"cp", "--hosts", work.host.address()};
    words.insert(words.end(), places.begin(), places.end());
    return run_cli(words);
  }
};

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("cp: a file to several ranks is in the directory of each, with its mode") {
  Folders folders;
  std::string text;
  for (int i = 0; text.size() < 2'000'000; ++i) text += std::to_string(i);
  const auto from = folders.dir.path() / "config";
  write_text(from, text);
  fs::permissions(from, fs::perms(0640));
  const auto done = folders.cp({from.string(), "work:0,2:copy"});
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(done.out)) ==
        Words{"work[0]: 1 file, 1.9 MiB", "work[2]: 1 file, 1.9 MiB"});
  for (const int rank : {0, 2}) {
    CHECK((text_in(folders.of(rank) / "copy") == text));
    CHECK(fs::status(folders.of(rank) / "copy").permissions() == fs::perms(0640));
    CHECK(entries(folders.of(rank)) == 1);
  }
  CHECK(entries(folders.of(1)) == 0);
  CHECK(folders.work.audited("copy to", "copy").size() == 2);
}

TEST_CASE("cp: folders come from several ranks, one beside the other") {
  Folders folders;
  for (int rank = 0; rank < Work::ranks; ++rank) {
    write_text(folders.of(rank) / "logs" / "deep" / "out", "of " + std::to_string(rank));
    fs::create_symlink("deep/out", folders.of(rank) / "logs" / "link");
  }
  const auto to = folders.dir.path() / "to";
  fs::create_directory(to);
  const auto all = folders.cp({"work:logs", to.string()});
  INFO(all.err);
  CHECK(all.status == ExitStatus::exited(0));
  for (int rank = 0; rank < Work::ranks; ++rank) {
    const auto logs = to / std::to_string(rank) / "logs";
    CHECK(text_in(logs / "deep" / "out") == "of " + std::to_string(rank));
    CHECK(fs::read_symlink(logs / "link") == "deep/out");
  }
  // From one rank, without a folder of its own; and two things at once.
  const auto one = folders.cp({"work:1:logs/deep/out", (to / "single").string()});
  INFO(one.err);
  CHECK(one.status == ExitStatus::exited(0));
  CHECK(text_in(to / "single") == "of 1");
  CHECK(folders.cp({"work:1:logs/deep", "work:1:logs/link", to.string()}).status ==
        ExitStatus::exited(0));
  CHECK(text_in(to / "link") == "of 1");
}

TEST_CASE("cp: the directory of a rank itself comes under the rank's number") {
  Folders folders;
  write_text(folders.of(1) / "file", "text");
  const auto to = folders.dir.path() / "to";
  fs::create_directory(to);
  const auto done = folders.cp({"work:1:.", to.string()});
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(text_in(to / "1" / "file") == "text");
  CHECK(folders.cp({"work:1:.", (to / "new").string()}).status == ExitStatus::exited(0));
  CHECK(text_in(to / "new" / "file") == "text");
}

TEST_CASE("cp: what cannot be copied is said, for each rank, and leaves nothing") {
  Folders folders;
  write_text(folders.dir.path() / "x", "x");
  const auto here = (folders.dir.path() / "x").string();
  const auto missing = folders.cp({"work:1:no-such-file", folders.dir.path().string()});
  CHECK(missing.status == ExitStatus::exited(1));
  CHECK(says(missing.err, "work[1]: no-such-file: No such file or directory"));
  const auto no_folder = folders.cp({here, "work:0,1:no/such/place"});
  CHECK(no_folder.status == ExitStatus::exited(1));
  CHECK(says(no_folder.err, "work[0]: no/such: No such file or directory"));
  CHECK(says(no_folder.err, "work[1]: no/such: No such file or directory"));
  const auto not_here = folders.cp({"no-such-file", "work:0:place"});
  CHECK(not_here.status == ExitStatus::exited(1));
  CHECK(says(not_here.err, "no-such-file: No such file or directory"));
  CHECK(entries(folders.of(0)) == 0);
  CHECK(folders.cp({here, here}).status == ExitStatus::exited(2));
  CHECK(folders.cp({"work:0:a", "work:1:b"}).status == ExitStatus::exited(2));
  CHECK(folders.cp({here, "work:7:b"}).status == ExitStatus::exited(1));
  CHECK(folders.cp({here}).status == ExitStatus::exited(2));
}

TEST_CASE("cp: links that lead outside of the copy are left out on both ways, and said") {
  Folders folders;
  for (const auto& from : {folders.of(0) / "tree", folders.dir.path() / "tree"}) {
    write_text(from / "sub" / "file", "text");
    fs::create_symlink("../sub/file", from / "sub" / "inside");
    fs::create_symlink("/etc/passwd", from / "sub" / "absolute");
    fs::create_symlink("../../../up", from / "sub" / "up");
  }
  const auto is_copied = [](const fs::path& tree) {
    CHECK(text_in(tree / "sub" / "inside") == "text");
    CHECK(entries(tree / "sub") == 2);
  };
  const auto to = folders.dir.path() / "to";
  for (const Words& places : {Words{"work:0:tree", to.string()},
                              Words{(folders.dir.path() / "tree").string(), "work:1:to"}}) {
    const auto done = folders.cp(places);
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(1));
    CHECK(says(done.err, "sub/absolute is left out: it is a link to /etc/passwd, outside of"));
    CHECK(says(done.err, "sub/up is left out"));
    CHECK(says(done.out, "]: "));
  }
  is_copied(to);
  is_copied(folders.of(1) / "to");
}

TEST_CASE("cp: a full disk at the rank is said, and the file that was there stays" *
          doctest::test_suite(need::root)) {
  TempDir dir;
  const auto disk = dir / "disk";
  fs::create_directory(disk);
  Work work("exec unshare -m sh -c 'mount -t tmpfs -o size=1m none " + disk + "; echo old > " +
            disk + "/copy; exec sleep 300'");
  write_text(dir.path() / "big", std::string(3'000'000, 'x'));
  Finished done;
  // The rank has said "up" before the disk is there.
  REQUIRE(wait_until([&] { return says(work.exec("work:1", {"cat", disk + "/copy"}).out, "old"); },
                     in_time));
  done = run_cli({"cp", "--hosts", work.host.address(), dir / "big", "work:1:" + disk + "/copy"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK_MESSAGE(says(done.err, "work[1]: " + disk + "/copy: No space left on device"), done.err);
  const auto left = work.exec("work:1", {"sh", "-c", "cat " + disk + "/copy; ls -A " + disk});
  CHECK(left.out == "old\ncopy\n");
}

TEST_CASE("cp: a copy that is broken off leaves nothing, and what was there stays") {
  Folders folders;
  write_text(folders.of(0) / "copy", "old");
  // A hole that takes long to copy, and is never copied to its end.
  const auto big = folders.dir.path() / "big";
  write_text(big, "");
  fs::resize_file(big, 64ULL << 30U);
  for (const int signal : {SIGKILL, SIGTERM}) {
    Process client(
        cli({"cp", "--hosts", folders.work.host.address(), big.string(), "work:0:copy"}));
    REQUIRE(
        wait_until([&] { return !own_processes_with("--task receive -- copy").empty(); }, in_time));
    client.send_signal(signal);
    client.wait_exit(in_time);
    CHECK(
        wait_until([&] { return own_processes_with("--task receive -- copy").empty(); }, in_time));
    CHECK(text_in(folders.of(0) / "copy") == "old");
    CHECK(entries(folders.of(0)) == 1);
  }
}

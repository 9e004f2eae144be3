#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "agent/keeper/program_lookup.h"
#include "agent/os/cgroup.h"
#include "agent/os/lifeline.h"
#include "agent/os/process_table.h"
#include "tests/support/temp_dir.h"

using namespace meshbus::keeper;
using namespace meshbus::os;
using meshbus::test::TempDir;

TEST_CASE("keeper lookup: PATH is searched as execvp does") {
  const TempDir directory;
  std::filesystem::create_directories(directory.path() / "a/isdir");
  std::filesystem::create_directories(directory.path() / "b");
  directory.write("a/plain", "");
  directory.write("b/plain", "", true);
  directory.write("b/isdir", "", true);
  directory.write("a/denied", "");
  directory.write("here", "", true);
  const std::string path =
      directory / "a" + ":/no/such:" + (directory / "here") + ":" + (directory / "b");
  // Not executable, a directory, and an entry that is a file are all passed over.
  CHECK(find_program("plain", path, "").value() == directory / "b/plain");
  CHECK(find_program("isdir", path, "").value() == directory / "b/isdir");
  CHECK(find_program("denied", path, "").error().error == EACCES);
  CHECK(find_program("absent", path, "").error().error == ENOENT);
  CHECK(find_program("absent", path, "").error().stage == SpawnStage::lookup);
  CHECK(find_program("", path, "").error().error == ENOENT);
  // With a slash execve judges; without PATH there is the system's; an empty entry is the working
  // directory.
  CHECK(find_program("./absent", path, "").value() == "./absent");
  CHECK(find_program("sh", std::nullopt, "").value() == "/bin/sh");
  CHECK(find_program("here", "/no/such:", directory.path().string()).value() == "./here");
  CHECK(find_program("plain", "b", directory.path().string()).value() == "b/plain");
  CHECK(find_program("here", "", directory.path().string()).value() == "./here");
}

TEST_CASE("keeper lookup: a missing interpreter is told from a missing file") {
  const TempDir directory;
  const auto script = directory.write("script", "#!  /no/such/python -u\n", true);
  const auto good = directory.write("good", "#!/bin/sh\n", true);
  const auto empty = directory.write("empty", "", true);
  const auto endless = directory.write("endless", "#!" + std::string(1000, 'x'), true);
  CHECK(find_bad_interpreter(script, "", ENOENT) == "/no/such/python");
  CHECK(find_bad_interpreter("script", directory.path().string(), ENOENT) == "/no/such/python");
  CHECK_FALSE(find_bad_interpreter(good, "", ENOENT).has_value());
  CHECK_FALSE(find_bad_interpreter(empty, "", ENOEXEC).has_value());
  CHECK_FALSE(find_bad_interpreter(directory / "absent", "", ENOENT).has_value());
  CHECK(find_bad_interpreter(endless, "", ENOENT).has_value());
  CHECK_FALSE(find_bad_interpreter("/bin/true", "", ENOENT).has_value());
}

TEST_CASE("keeper process table: a stat line is read whatever the command is called") {
  const auto entry =
      parse_stat("77 (a) Z 1 (b) S 5 6 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 100 0 0\n");
  REQUIRE(entry.has_value());
  CHECK(entry->pid == 77);
  CHECK(entry->state == 'S');
  CHECK(entry->parent == 5);
  CHECK(entry->group == 6);
  CHECK(entry->session == 7);
  CHECK(entry->cpu_ticks == 5 + 6);
  CHECK(entry->threads == 3);
  CHECK_FALSE(parse_stat("").has_value());
  CHECK_FALSE(parse_stat("77 (x").has_value());
  CHECK_FALSE(parse_stat("77 (x)").has_value());
  CHECK_FALSE(parse_stat("77 (x) S 1").has_value());
  const auto own = read_process(::getpid());
  REQUIRE(own.has_value());
  CHECK(own->parent == ::getppid());
  CHECK(own->session == ::getsid(0));
  CHECK(is_alive(::getpid()));
}

TEST_CASE("keeper cgroup: every mesh name makes a directory name, and no two the same") {
  CHECK(cgroup_name_of_mesh("trainers-13Se1Maqzryj") == "mesh-trainers-13Se1Maqzryj");
  CHECK(cgroup_name_of_mesh("a/b").find('/') == std::string::npos);
  CHECK(cgroup_name_of_mesh("a/b") != cgroup_name_of_mesh("a.b"));
  CHECK(cgroup_name_of_mesh("..") != "..");
  CHECK(cgroup_name_of_mesh(std::string(1000, 'x')).size() < 255);
  CHECK(cgroup_name_of_mesh(std::string(1000, 'x')) != cgroup_name_of_mesh(std::string(1001, 'x')));
  CHECK(cgroup_name_of_mesh("") == "mesh-");
}

TEST_CASE("keeper lifeline: a message is a word and the rest") {
  CHECK(parse_lifeline("stop 100").word == "stop");
  CHECK(parse_lifeline("stop 100").rest == "100");
  CHECK(parse_lifeline("swept").word == "swept");
  CHECK(parse_lifeline("swept").rest.empty());
  CHECK(parse_lifeline("failed no such  thing").rest == "no such  thing");
}

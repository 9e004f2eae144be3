// The parent-death signal of procs whose user or group is another one: what changes these clears
// it, so it must be asked for afterwards.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <csignal>
#include <optional>
#include <string>

#include "tests/integration/keeper/harness.h"
#include "tests/integration/needs.h"
#include "tests/support/process_table.h"

using namespace meshbus::test;

namespace {

/// Kills a keeper above a proc with these settings. By sweep, and without a warden: nobody but the
/// kernel ends the proc.
void check_death_of_keeper(const meshbus::os::ProcSettings& settings) {
  KeeperUnderTest keeper;
  auto spec = command({"sleep", "300"});
  spec.cwd = "/";
  spec.settings = settings;
  const auto id = keeper.spawn(spec, std::vector<meshbus::os::ProcSpec>(1));
  REQUIRE(keeper.wait_births(1));
  REQUIRE_FALSE(keeper.births.at(id).failure.has_value());
  const pid_t pid = keeper.births.at(id).pid;
  REQUIRE_FALSE(is_gone(pid));
  keeper.process().send_signal(SIGKILL);
  keeper.process().wait_exit(long_enough);
  CHECK(wait_until([&] { return is_gone(pid); }, long_enough));
}

}  // namespace

TEST_CASE("keeper: its death is the death of its procs, in their own session or not") {
  check_death_of_keeper({});
  check_death_of_keeper({.new_session = false});
  check_death_of_keeper({.subreaper = false});
}

TEST_CASE("keeper: its death is also the death of procs of another user or group" *
          doctest::test_suite(need::root)) {
  check_death_of_keeper({.uid = 65534});
  check_death_of_keeper({.gid = 65534});
  check_death_of_keeper({.uid = 65534, .gid = 65534, .groups = {65533}, .new_session = false});
}

namespace {

/// The user to whom a file below /proc/PID belongs: the process's own, or root for a process that
/// cannot be dumped.
std::optional<uid_t> owner_in_proc(pid_t pid) {
  struct stat status{};
  if (::stat(("/proc/" + std::to_string(pid) + "/environ").c_str(), &status) != 0)
    return std::nullopt;
  return status.st_uid;
}

}  // namespace

TEST_CASE("keeper: its user can neither dump nor read it, and can do so with procs" *
          doctest::test_suite(need::root)) {
  KeeperUnderTest keeper(
      {.wrapper = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"}});
  auto spec = command({"sleep", "300"});
  spec.cwd = "/";
  const auto id = keeper.spawn(spec, std::vector<meshbus::os::ProcSpec>(1));
  REQUIRE(keeper.wait_births(1));
  REQUIRE_FALSE(keeper.births.at(id).failure.has_value());
  CHECK(owner_in_proc(keeper.process().pid()) == 0);
  // The kernel closes the descriptor that tells of the birth a moment before it lets the new
  // program be read.
  const pid_t pid = keeper.births.at(id).pid;
  CHECK(wait_until([&] { return owner_in_proc(pid) == uid_t{65534}; }, long_enough));
}

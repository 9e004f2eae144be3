#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace meshbus::test {

/// Finds what a piece of test leaves behind, compared with when the check was made: live child
/// processes of the test program (which is a subreaper, so that everything that escaped from a
/// process under test is among them), files below the test program's own directory, open
/// descriptors, and cgroups below the test program's own. Needs an Environment.
class LeftoverCheck {
 public:
  LeftoverCheck();
  /// One line for each thing that is still left after `grace`, in which things may end on their
  /// own; dead children are reaped. Then the leftovers themselves are removed (processes killed,
  /// files deleted), so that the next test starts clean.
  std::vector<std::string> find(std::chrono::milliseconds grace);

 private:
  std::vector<std::string> look() const;

  std::set<pid_t> children_;
  std::set<std::filesystem::path> files_;
  std::set<std::filesystem::path> cgroups_;
  std::map<int, std::string> descriptors_;  // number -> what it is
};

/// Does a LeftoverCheck around every test case of this program and fails those that leave
/// something; also ends a test case that hangs for more than `limit`, or MESHBUS_TEST_CASE_SECONDS,
/// naming it. Call it before doctest::Context::run().
void check_every_test_case(std::chrono::seconds limit);

/// Kills and reaps every child of this process but the given ones, and what becomes a child
/// meanwhile.
void kill_children(const std::set<pid_t>& spared);

}  // namespace meshbus::test

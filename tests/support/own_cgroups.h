#pragma once

#include <filesystem>
#include <set>
#include <vector>

namespace meshbus::test {

/// cgroups of the test program itself, for it and all that it starts: below them, and nowhere else,
/// the hosts under test make theirs, so that what they leave can be told from what other hosts of
/// this machine have. In the hierarchies for memory and pids of v1, and in v2, where that is
/// allowed (in v2 with controllers it is itself in a leaf `self`, so that hosts may limit procs
/// beside it); not for cpu, where everything below would get the share of one process.
class OwnCgroups {
 public:
  OwnCgroups();
  ~OwnCgroups() { leave(); }
  OwnCgroups(const OwnCgroups&) = delete;
  OwnCgroups& operator=(const OwnCgroups&) = delete;
  /// Back to where we came from; they are removed with all that is in them.
  void leave();

 private:
  std::vector<std::filesystem::path> made_;
};

/// The directories below those of OwnCgroups. Without them: none.
std::set<std::filesystem::path> cgroups_below_own();

/// Removes those of hosts in which nobody is: after machines have lost their power, on which no
/// host could clean up. Real ones would have taken their cgroups along.
void remove_empty_host_cgroups();

}  // namespace meshbus::test

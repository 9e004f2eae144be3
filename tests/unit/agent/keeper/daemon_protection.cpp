#include "agent/os/daemon_protection.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace meshbus::os {
namespace {

/// The exit code of a child that runs this.
template <typename Run>
int run_in_child(Run run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int read_score() {
  int score = 0;
  std::ifstream("/proc/self/oom_score_adj") >> score;
  return score;
}

}  // namespace

TEST_CASE("agent_keeper: a process that forbids dumps is not dumpable") {
  CHECK(run_in_child([] {
          forbid_dumps();
          return ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
        }) == 0);
}

TEST_CASE("agent_keeper: the OOM score is lowered where that is allowed, and else left alone") {
  CHECK(run_in_child([] {
          const int before = read_score();
          const auto lowered = lower_oom_score();
          if (!lowered) return read_score() == before ? 0 : 1;
          return *lowered == before && read_score() == kRoleOomScore ? 0 : 2;
        }) == 0);
}

TEST_CASE("agent_keeper: another user does not lower its OOM score, which procs could not raise") {
  if (::geteuid() != 0) {
    MESSAGE("not root: no other user to become");
    return;
  }
  CHECK(run_in_child([] {
          if (::setresuid(65534, 65534, 65534) != 0) return 3;
          const int before = read_score();
          return !lower_oom_score() && read_score() == before ? 0 : 1;
        }) == 0);
}

}  // namespace meshbus::os

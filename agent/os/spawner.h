#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

#include "agent/os/child_plan.h"
#include "agent/os/spec.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::os {

/// A child that executed its program.
struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
};

/// Makes children by the recipe: clone3(VM | VFORK | PIDFD | CLEAR_SIGHAND) on a guarded stack of
/// its own. One thread only. Where clone3 is forbidden (ENOSYS, as in the seccomp profiles of
/// container runtimes) it uses clone, with the same outcome.
class Spawner {
 public:
  /// Make it after signal dispositions are settled: it notes which signals are ignored here.
  /// Errors: io_error (no memory for a stack).
  static Result<Spawner> make();
  Spawner(Spawner&& other) noexcept;
  Spawner& operator=(Spawner&&) = delete;
  ~Spawner();

  /// Runs the plan in a new child, born in the cgroup v2 directory `cgroup` (-1: ours). Fills in
  /// what the plan needs from here (parent, signals). Returns when the child executed its program
  /// or failed to; a failed child is reaped already.
  tl::expected<Child, SpawnFailure> run(ChildPlan plan, int cgroup = -1);

  /// Starts a child that ends at once, to learn whether `cgroup` can be used. Returns 0 or an
  /// errno.
  int probe_cgroup(int cgroup);
  /// The same for a pid namespace of its own.
  int probe_pid_namespace();

 private:
  Spawner(void* mapping, std::uint64_t ignored_signals)
      : mapping_(mapping), ignored_signals_(ignored_signals) {}
  int probe(ChildPlan plan, int cgroup);
  long clone_child(void (*entry)(void*), ChildPlan& plan, int cgroup, int& pidfd);

  void* mapping_;  // guard page and stack
  std::uint64_t ignored_signals_;
  bool clone3_works_ = true;
  bool close_range_works_ = true;
};

}  // namespace meshbus::os

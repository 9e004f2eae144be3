#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>

namespace meshbus::os {

/// Kills descendants of this process, which must be a subreaper with one thread: whatever a
/// descendant does, its orphans become our children, so "no child left" (ECHILD) proves that
/// nothing is left. Rounds may be run one by one beside other work (orphans of a dead proc while
/// others live), or to the end.
class Sweeper {
 public:
  /// True for children that must live: they and their descendants are left alone. Empty: kill
  /// everything.
  using Keep = std::function<bool(pid_t)>;
  /// Told of each child that was reaped; `usage` includes its waited-for children. May be empty.
  using OnReaped = std::function<void(const siginfo_t& info, const rusage& usage)>;

  /// Where children are looked up. `table` is for kernels without /proc/PID/task/TID/children.
  enum class Source { automatic, table };

  explicit Sweeper(Keep keep = {}, OnReaped on_reaped = {}, Source source = Source::automatic);

  /// No child but kept ones; without `keep` this is ECHILD, the proof.
  struct Round {
    bool clean = false;
    std::size_t reaped = 0;
    std::size_t found = 0;  ///< Children to kill that were seen.
  };
  /// Kills what it can see once, and reaps. Does not block.
  Round round();

  /// Rounds until clean, waiting 200 µs for SIGCHLD when one reaped nothing. SIGCHLD must be
  /// blocked. False: the deadline passed (processes in state D that do not wake).
  bool run(std::chrono::milliseconds deadline);

  /// Children that are still there, for a message.
  std::vector<pid_t> survivors() const;

 private:
  std::optional<std::vector<pid_t>> children() const;
  std::size_t kill_children(const std::vector<pid_t>& children);
  std::size_t scan_process_table();
  bool reap_all(std::size_t& reaped);
  bool reap_one(pid_t pid);

  Keep keep_;
  OnReaped on_reaped_;
  Source source_;
  pid_t self_;
  pid_t session_;
  std::uint64_t rounds_ = 0;           // in a row that found something
  std::vector<pid_t> seen_last_pass_;  // sorted
};

/// SIGKILLs every process whose hard RLIMIT_RTTIME is `process_tag`, wherever it hangs in the tree:
/// for descendants without a living subreaper. One pass; returns how many it found. What changed
/// its user is out of reach without CAP_SYS_RESOURCE.
std::size_t kill_tagged(std::uint64_t process_tag);

/// Passes 1 ms apart until `quiet` passes in a row found nothing, or the deadline. True: quiet.
bool sweep_tagged(std::uint64_t process_tag, std::chrono::milliseconds deadline);

/// A new process tag: 2^62 + random. 0 when this process carries one already (a host inside a proc
/// of another host): a limit can only be lowered, and the outer tag must stay.
std::uint64_t make_process_tag();

}  // namespace meshbus::os

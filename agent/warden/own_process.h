#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <vector>

#include <sys/types.h>

#include "agent/warden/start_failure.h"
#include "common/base/unique_fd.h"

namespace meshbus::warden {

/// This process, made ready to be a warden: its signals come by a descriptor, and all orphans below
/// it become its children. One thread.
class OwnProcess {
 public:
  /// No role inherits `ready_fd` and `lifeline_fd` (-1: none); reads of the lifeline do not block.
  /// Streams 0 to 2 are open.
  Started prepare(int ready_fd, int lifeline_fd);
  /// The signalfd of SIGCHLD, SIGTERM, SIGINT and SIGHUP.
  int signals() const noexcept { return signals_.get(); }
  /// The child was reaped.
  void forget(pid_t child) { earlier_children_.erase(child); }
  /// Kills all that is below this process, but for what was there before prepare(), and children of
  /// which `is_kept` is true. Returns the processes that do not die within the limit.
  std::vector<pid_t> sweep(const std::function<bool(pid_t)>& is_kept) const;

 private:
  static constexpr std::chrono::seconds kSweepLimit{10};

  UniqueFd signals_;
  /// Children of a shell that executed us, say: they are not ours to end.
  std::set<pid_t> earlier_children_;
};

}  // namespace meshbus::warden

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/stacks/frame_splice.h"
#include "agent/stacks/image_cache.h"
#include "agent/stacks/kernel_site.h"
#include "agent/stacks/python_stacks.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/stopped_thread.h"
#include "agent/stacks/unwinder.h"
#include "common/base/user_ids.h"

namespace meshbus::stacks {

/// Looks where the threads of ranks are, one process after the other.
class ProcessReader {
 public:
  /// `table` outlives it. `is_kernel_only`: no thread is stopped.
  ProcessReader(StackTable& table, bool is_kernel_only)
      : table_(table), is_kernel_only_(is_kernel_only) {}

  /// A process of a rank.
  struct Target {
    std::uint64_t rank = 0;
    pid_t pid = 0;
    std::string parents = {};  ///< "sh/": the names of the processes that started it.
    int depth = 0;             ///< How many these are.
  };
  /// Reads that process, and those that it has started; as root without those of other users:
  /// root parses nothing that others control.
  void read(const Target& target);
  /// The processes that were left to their users since the last call.
  std::map<UserIds, std::vector<Target>> take_others() { return std::exchange(others_, {}); }

 private:
  /// A process that is being read: all of its threads share this.
  struct Process;
  void read_process(const Target& target);
  void read_thread(Process& process, pid_t tid);
  /// A thread that waits for a CPU gets more time to stop than one that waits for a device.
  Result<StoppedThread> stop(pid_t tid, const KernelSite& site);
  std::vector<std::uint32_t> walk(Process& process, pid_t tid, const KernelSite& site,
                                  std::string& note);
  NamedFrame name(const NativeFrame& frame, const Process& process);
  static std::string mutex_note(const Process& process, const KernelSite& site,
                                const std::vector<NamedFrame>& frames);

  StackTable& table_;
  ImageCache images_;
  bool is_kernel_only_;
  std::map<UserIds, std::vector<Target>> others_;
  /// How many the present rank has.
  std::size_t processes_ = 0;
  /// Threads that wait for a CPU may still take so much time to stop.
  std::chrono::nanoseconds starved_left_ = std::chrono::seconds(4);
};

}  // namespace meshbus::stacks

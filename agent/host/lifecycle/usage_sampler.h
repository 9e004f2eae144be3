#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "agent/host/lifecycle/progress_files.h"
#include "agent/host/model/proc_table.h"
#include "common/loop/reactor.h"

namespace meshbus::host {

/// Samples what the live procs of this host use: each one once in a period, a few at a time, so
/// that nothing else waits. It takes a hundredth of a CPU at most: with more procs the figures
/// become older. Lives on the reactor's thread.
class UsageSampler {
 public:
  /// `period` 0: only looks when it is asked to.
  UsageSampler(Reactor& reactor, ProcTable& table, const ProgressFiles& progress,
               std::chrono::milliseconds period);
  ~UsageSampler() { reactor_.cancel(timer_); }
  UsageSampler(const UsageSampler&) = delete;
  UsageSampler& operator=(const UsageSampler&) = delete;

  /// Samples procs of this mesh that were not sampled a moment ago; a few, not all of many.
  void refresh(const Mesh& mesh) { refresh(mesh, kFreshAtOnce); }
  /// The same for all meshes together.
  void refresh_all();

 private:
  static constexpr std::size_t kProcsPerSlice = 32;  ///< About a millisecond.
  static constexpr std::size_t kFreshAtOnce = 64;

  std::size_t refresh(const Mesh& mesh, std::size_t most);
  void arm(std::chrono::nanoseconds pause);
  void on_timer();
  void look(Proc& proc);

  Reactor& reactor_;
  ProcTable& table_;
  const ProgressFiles& progress_;
  std::chrono::nanoseconds period_;
  std::vector<std::uint64_t>
      round_;  ///< Procs to sample, by id; those from `next_` on are still to come.
  std::size_t next_ = 0;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus::host

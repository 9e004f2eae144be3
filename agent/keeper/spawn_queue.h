#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "agent/keeper/proc_starter.h"
#include "agent/os/spec.h"

namespace meshbus::keeper {

/// A process that is still to be started, for one proc or for several.
struct QueuedProcess {
  std::shared_ptr<const PreparedSpec> prepared;
  std::vector<os::ProcSpec> procs;  ///< The first one has the bootstrap.
  bool is_shared = false;           ///< For several procs, now or later.
  std::uint64_t beside = 0;         ///< See os::ProcSpec::beside.
  unsigned attempts = 0;            ///< How many templates were asked for it.
};

/// What the agent has asked for and the keeper has not started yet. Pure bookkeeping.
class SpawnQueue {
 public:
  /// Queues the procs of a batch. A proc that is queued, or known by `is_known`, is skipped: a new
  /// agent asks again for what it does not know to be born. Returns the procs whose process was
  /// started before, so that they cannot join it any more.
  std::vector<std::uint64_t> add(os::SpawnBatch batch,
                                 const std::function<bool(std::uint64_t)>& is_known);
  /// Takes a proc out. False: it is not queued.
  bool cancel(std::uint64_t id);
  /// Takes out all procs of a mesh, and returns them.
  std::vector<std::uint64_t> cancel_mesh(const std::string& mesh);
  bool empty() const noexcept { return queue_.empty(); }
  /// The process that was asked for first. The queue must not be empty.
  QueuedProcess take();
  void clear();

 private:
  std::deque<QueuedProcess> queue_;
  std::unordered_set<std::uint64_t> ids_;  // of the procs in it
};

}  // namespace meshbus::keeper

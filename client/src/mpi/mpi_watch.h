#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/src/mpi/mpi_job.h"
#include "client/src/mpi/mpi_trouble.h"

namespace meshbus {

/// Watches the ranks of an MPI job and its helpers, and stops the ranks when they cannot go on.
/// Thread safe.
class MpiWatch {
 public:
  struct Mesh {
    std::function<MeshOutcome()> known;
    std::function<void(const StopOptions&)> stop;
    /// Has on_time() called after that time, on the handlers' thread.
    std::function<void(std::chrono::milliseconds)> call_later;
    /// For the outcome of the mesh.
    std::function<void(const std::optional<JobTrouble>&)> note;
  };

  explicit MpiWatch(bool may_restart) : may_restart_(may_restart) {}

  /// The helpers: they end with this object, or with the mesh.
  void set_job(std::unique_ptr<MpiJob> job) { job_ = std::move(job); }
  /// The ranks, once they are there. What was heard before is judged now.
  void attach(Mesh mesh);
  void on_notice(const mpi::Notice& notice);
  void on_lost_helper(const RankReport& helper);
  /// A rank has changed.
  void on_state();
  /// A rank has failed for good: the others would wait for it, and are stopped.
  void on_failure(const RankReport& rank);
  void on_time();
  /// All ranks have ended, and none is restarted. Writes into the outcome what the trouble was.
  void on_end(MeshOutcome& outcome);

 private:
  /// Judges what was heard so far, and stops the ranks when that is a reason.
  void judge();

  const bool may_restart_;
  std::unique_ptr<MpiJob> job_;
  std::mutex mutex_;
  std::optional<Mesh> mesh_;  // guarded by mutex_, as all that follows
  MpiTrouble trouble_;
  std::optional<RankReport> failure_;  ///< The first one that was told.
  bool has_stopped_ = false;           ///< Because of a failure.
  bool has_notices_ = false;
  bool is_waiting_ = false;  ///< For on_time().
  std::optional<JobTrouble> verdict_;
};

}  // namespace meshbus

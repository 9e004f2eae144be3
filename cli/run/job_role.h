#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/run/job_order.h"
#include "cli/run/role_start.h"
#include "cli/run/role_view.h"
#include "cli/run/run_events.h"
#include "cli/run/run_job.h"
#include "cli/run/run_report.h"
#include "client/src/mpi/mpi_trouble.h"

namespace meshbus::cli {

/// Whether the rank ended because its host did, or the process there that held it.
bool is_host_lost(const RankReport& rank);

/// One role of an attempt: its ranks, from their start to their end. Decides on the main thread;
/// start_role() fills in parts() on another one before is_up().
class JobRole {
 public:
  JobRole(const RunArguments& run, std::size_t number, const EventBell& bell);

  RoleParts& parts() { return parts_; }
  RunEvents& events() { return events_; }
  const RoleArguments& arguments() const { return arguments_; }
  /// Empty when it is the only one.
  const std::string& name() const { return name_; }
  /// "rank 3", or "trainer[3]" among several roles.
  std::string rank_name(std::uint64_t rank) const;

  /// Whether there is a mesh, and the main thread knows it.
  bool is_up() const { return is_up_; }
  void set_up() { is_up_ = true; }
  /// Whether all its ranks have ended, and their output is written.
  bool is_over() const { return is_up_ && events_.is_ended(); }
  /// When a rank ended; nothing: its host does not say.
  using Time = std::optional<std::chrono::system_clock::time_point>;
  /// The roles that end the job have ended, the last rank `at` that time, and this role is none of
  /// them. Its ranks may lose those ranks before they are told to stop themselves: a first failure
  /// after that time does not count, nor one that is not known yet.
  void release(Time at);
  JobOrder::State state() const;
  /// Whether each failure of a rank is a reason to stop the job.
  bool ends_job_by_failure() const { return !arguments_.keep_going && !may_restart(); }
  MeshOutcome known() const { return parts_.mesh->known(); }
  RoleView view() const { return {name_, *parts_.mesh, events_}; }
  RoleOutcome outcome();

  /// Why the job is to be stopped.
  struct Trouble {
    /// For `run` to exit with; nothing: that of the failure.
    std::optional<int> code;
    std::string words;
    /// The rank that is the reason.
    std::optional<std::uint64_t> rank;
    /// Somebody else has stopped the rank.
    bool is_stopped_elsewhere = false;
  };
  /// The first trouble that is not left to the role itself (--keep-going).
  std::optional<Trouble> find_trouble();
  /// When to ask again though nothing is heard; nothing: there is no need to.
  std::optional<MpiTrouble::Time> due() const { return due_; }
  /// What an MPI helper has told, which changes the exit code of a job that has ended; nothing: it
  /// does not. `code`: that of the job so far; `is_own`: it has another reason than a rank.
  std::optional<int> code_after_end(const MeshOutcome& outcome, int code, bool is_own);
  /// What MPI helpers have told, for the last words; may be empty.
  std::string mpi_words(const MeshOutcome& outcome) const {
    return is_released_ ? std::string() : mpi_.last_words(outcome.first_failure);
  }

  /// Stops its ranks. Does not wait.
  void request_stop(const std::string& reason, bool at_once, std::optional<std::uint64_t> because);

 private:
  /// What MPI helpers have told since.
  void take_notices();
  std::optional<Trouble> find_mpi_trouble();
  bool may_restart() const { return arguments_.restart.on != RestartPolicy::On::never; }

  const RoleArguments& arguments_;
  std::string name_;
  RunEvents events_;
  RoleParts parts_;
  bool is_up_ = false;
  bool is_released_ = false;
  /// What MPI helpers tell of the ranks.
  MpiTrouble mpi_;
  std::optional<MpiTrouble::Time> due_;
};

}  // namespace meshbus::cli

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run/job_order.h"
#include "cli/run/job_roles.h"
#include "cli/run/run_attempts.h"
#include "cli/run/run_job.h"

namespace meshbus::cli {

/// Writes a report of a run to that file, '-' for stdout; says so when it cannot.
void write_report(const std::string& path, const std::string& report);

/// The end of an attempt of a run whose roles have ended or were given up: another attempt, or the
/// last words, the reports, the end of the hosts and the exit code. Main thread.
class JobEnd {
 public:
  /// How the attempt went.
  struct Facts {
    /// The exit code, when something else than a rank's own failure was the first reason to stop.
    std::optional<int> code;
    /// The job was stopped by us.
    bool has_stopped = false;
    /// Roles are still being started.
    bool is_starting = false;
    bool is_stopped_elsewhere = false;
    /// The user wants no more of it (Ctrl-C, --timeout), whatever came first.
    bool is_given_up = false;
    /// A thread waits for a reader of our output that does not come: it cannot be joined.
    bool is_stuck = false;
    /// The role whose trouble was the first reason to stop.
    const JobRole* cause = nullptr;
  };

  JobEnd(Run& run, const JobRoles& roles, const JobOrder& order, Facts facts);
  /// The exit code of the run; nothing when another attempt is to be made.
  std::optional<int> finish();

 private:
  bool begin_next_attempt(const std::vector<RoleOutcome>& roles);
  void tell_what_is_left(const std::vector<RoleOutcome>& roles);
  void write_reports(const std::vector<RoleOutcome>& roles, int exit_code);
  bool stop_pumps();

  Run& run_;
  const RunArguments& arguments_;
  const JobRoles& roles_;
  const JobOrder& order_;
  Facts facts_;
};

}  // namespace meshbus::cli

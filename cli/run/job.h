#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/event_bell.h"
#include "cli/run/job_end.h"
#include "cli/run/job_order.h"
#include "cli/run/job_role.h"
#include "cli/run/job_roles.h"
#include "cli/run/run_attempts.h"
#include "cli/run/run_job.h"
#include "cli/run/stop_ladder.h"

namespace meshbus::cli {

/// One attempt of a run, from its start to its end; the first one starts the hosts, and the last
/// one ends them. Starts the roles in their order, and stops all when one of them says so. Decides
/// on the main thread; the library's threads only bring events.
/// Large because: a run lives by signals, times and events, and each of them has a function here.
class Job {
 public:
  /// `order`: of the roles of `run`.
  Job(Run& run, JobOrder order);
  /// The exit code of the run; nothing when a host was lost and another attempt is to be made.
  std::optional<int> run();

 private:
  using Roles = std::vector<std::size_t>;

  void loop();
  void start(Roles roles);
  void on_signal(int signal);
  void on_end_signal(int signal);
  void on_events();
  void on_started();
  void on_start_failed(const Error& error);
  void on_trouble(const JobRole& role, const JobRole::Trouble& trouble);
  /// Tells order_ how far the roles are.
  void note_states();
  void on_order();
  void on_time();
  void on_blocked();
  void on_not_ended();
  void begin_stop(int code, const std::string& reason, bool at_once);
  /// `because`: a rank of `of`.
  void order_stop(const std::string& reason, bool at_once, const JobRole* of = nullptr,
                  std::optional<std::uint64_t> because = {});
  void drop_output();

  bool is_starting() const { return starting_.valid(); }
  std::optional<int> finish();

  Run& run_;
  const RunArguments& arguments_;
  EventBell bell_;
  JobOrder order_;
  JobRoles roles_;
  std::vector<RoleAddress> places_;
  /// Roles are being started, these.
  std::future<Result<void>> starting_;
  Roles starting_roles_;
  /// starting_ is over.
  std::atomic<bool> is_started_ = false;
  /// The hosts could not be started or reached: the command line is not wrong.
  bool is_hosts_fault_ = false;
  /// Signals that came before a role was up: they are for the ranks.
  std::vector<int> early_signals_;
  bool is_over_ = false;
  bool is_stopped_elsewhere_ = false;
  bool is_given_up_ = false;
  /// A thread waits for a reader of our output that does not come: it cannot be joined.
  bool is_stuck_ = false;
  /// Set by the first reason to stop that is not a rank's own failure.
  std::optional<int> code_;
  StopLadder stop_;
  /// Why a stop is under way: roles that come up meanwhile are stopped for it, too.
  std::string stop_reason_;
  /// The role whose trouble was the first reason to stop.
  const JobRole* cause_ = nullptr;
};

}  // namespace meshbus::cli

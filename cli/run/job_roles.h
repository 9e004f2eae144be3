#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "cli/run/event_bell.h"
#include "cli/run/job_order.h"
#include "cli/run/job_role.h"
#include "cli/run/role_view.h"
#include "cli/run/run_job.h"

namespace meshbus::cli {

/// The roles of an attempt, in the order of the job. Main thread.
class JobRoles {
 public:
  JobRoles(const RunArguments& run, const EventBell& bell);

  std::size_t size() const { return roles_.size(); }
  const std::unique_ptr<JobRole>& operator[](std::size_t number) const { return roles_[number]; }
  auto begin() const { return roles_.begin(); }
  auto end() const { return roles_.end(); }

  /// Whether one is up.
  bool is_up() const;
  /// Whether the ranks of one are being started.
  bool is_spawning() const;
  /// Whether nobody reads the output of one that is up.
  bool is_blocked() const;
  /// Whether all ranks of those that are up have ended.
  bool have_all_ended() const;
  /// When to ask them again for trouble though nothing is heard; nothing: there is no need to.
  std::optional<std::chrono::steady_clock::time_point> due() const;
  /// The longest one of those that are up.
  std::chrono::milliseconds grace() const;
  /// Those that are up.
  RoleViews views() const;
  /// Those that end the job have ended: how the others end from then on does not count.
  void release_others(const JobOrder& order);

 private:
  std::vector<std::unique_ptr<JobRole>> roles_;
};

}  // namespace meshbus::cli

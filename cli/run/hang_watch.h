#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/run/job_stacks.h"
#include "cli/run/job_stall.h"
#include "cli/run/role_view.h"

namespace meshbus::cli {

/// Looks where the ranks of a run are when they seem to hang: when somebody asks, when a rank is
/// frozen, when a time is over, and when all stand still (--stall-after). Each look goes to stderr
/// and into the report. Lives on the main thread; outlives the attempts of the run.
class HangWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The ranks of an attempt are up; `stall_after`: --stall-after.
  void begin(std::optional<std::chrono::milliseconds> stall_after, Time now);
  /// When pass() has something to do; nothing: never.
  std::optional<Time> due() const;
  /// Returns that the job stands still, in words. Blocks as JobStall::look().
  std::optional<std::string> pass(Context& context, HostMesh& hosts, const RoleViews& roles,
                                  Time now);
  /// The host of that rank, "rank 3", has found it frozen. Ranks that freeze together, or again and
  /// again, are seen by one look.
  void on_frozen(Context& context, const RoleViews& roles, const std::string& name,
                 const RankReport& rank, Time now);
  /// Blocks as JobStacks::look().
  void look(Context& context, const RoleViews& roles, const std::string& why);
  /// All looks, for the report.
  const nlohmann::ordered_json& json() const noexcept { return looks_.json(); }

 private:
  JobStacks looks_;
  std::optional<JobStall> stall_;
  std::optional<Time> frozen_at_;
};

}  // namespace meshbus::cli

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "agent/keeper/child_slots.h"
#include "agent/keeper/protocol.h"
#include "agent/os/spawner.h"
#include "agent/os/spec.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

/// A spec made ready for many starts: environment indexed, program found once. Owns its strings.
class PreparedSpec {
 public:
  explicit PreparedSpec(os::SpawnSpec spec);
  PreparedSpec(const PreparedSpec&) = delete;  // it points into itself
  PreparedSpec& operator=(const PreparedSpec&) = delete;
  const os::SpawnSpec& spec() const noexcept { return spec_; }

 private:
  friend class ProcStarter;
  os::SpawnSpec spec_;
  std::vector<const char*> argv_;
  std::vector<const char*> env_;
  std::unordered_map<std::string_view, std::size_t> env_index_;  // key → position in env_
  mutable std::optional<std::string> found_program_;             // by the shared PATH, once one proc was started with it
};

/// Turns specs into running procs: pipes, environment, bootstrap variable, the recipe. One thread only.
class ProcStarter {
 public:
  /// `mark` is the hard RLIMIT_RTTIME that every proc and its descendants carry, 0 for none. `nofile` is the soft limit of open
  /// files that procs get (ours may have been raised), 0 = as ours. Errors: io_error.
  static Result<ProcStarter> make(std::uint64_t mark, std::uint64_t nofile);

  struct Started {
    Birth birth;     ///< Its pidfd is the agent's own copy.
    UniqueFd pidfd;  ///< The keeper's; empty when the birth failed.
  };
  /// Starts one proc; never fails otherwise than by birth.failure.
  /// `cgroup`: v2, to be born in; -1: ours. `joins`: of v1, by join_file_v1(). `link`: see agent/os/process_link.h; empty: none.
  Started start(const PreparedSpec& prepared, os::ProcSpec proc, int cgroup, const std::vector<UniqueFd>& joins = {}, UniqueFd link = {});

 private:
  ProcStarter(os::Spawner spawner, UniqueFd null, ChildSlots slots, std::uint64_t mark, std::uint64_t nofile)
      : spawner_(std::move(spawner)), null_(std::move(null)), slots_(std::move(slots)), mark_(mark), nofile_(nofile) {}
  std::vector<os::ChildPlan::Limit> limits_of(const os::SpawnSpec& spec) const;
  bool merge_environment(const PreparedSpec& prepared, const os::ProcSpec& proc, std::vector<const char*>& env,
                         std::optional<std::string_view>& path) const;
  tl::expected<std::string, os::SpawnFailure> find_program_of(const PreparedSpec& prepared, std::optional<std::string_view> path,
                                                              bool path_is_shared) const;
  int make_streams(const os::ProcSpec& proc, os::ChildPlan& plan, Birth& birth);
  tl::expected<void, os::SpawnFailure> start_into(Started& started, const PreparedSpec& prepared, os::ProcSpec& proc, int cgroup,
                                                  const std::vector<UniqueFd>& joins, UniqueFd link);

  os::Spawner spawner_;
  UniqueFd null_;
  ChildSlots slots_;
  std::uint64_t mark_;
  std::uint64_t nofile_;
};

}  // namespace meshbus::keeper

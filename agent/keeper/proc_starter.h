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
  mutable std::optional<std::string>
      found_program_;  // by the shared PATH, once one proc was started with it
};

/// Turns specs into running procs: pipes, environment, bootstrap variable, the recipe. One thread
/// only.
class ProcStarter {
 public:
  /// What every proc gets from its keeper, besides what its spec says.
  struct Inheritance {
    /// The hard RLIMIT_RTTIME of procs and descendants; 0: none.
    std::uint64_t process_tag = 0;
    /// Soft limit of open files, as ours may have been raised; 0: as ours.
    std::uint64_t nofile = 0;
    std::optional<int> oom_score;  ///< When it is not to be that of the keeper.
  };
  /// `bus_folder`: where the socket is by which procs of other users reach the broker; empty: there
  /// is none. Errors: io_error.
  static Result<ProcStarter> make(Inheritance inheritance, UniqueFd bus_folder = {});

  /// Its pidfd is the agent's own copy.
  struct Started {
    Birth birth;
    UniqueFd pidfd;  ///< The keeper's; empty when the birth failed.
  };
  /// Starts one proc; never fails otherwise than by birth.failure.
  /// `cgroup`: v2, to be born in; -1: ours. `joins`: of v1, by join_file_v1(). `link`: see
  /// agent/os/process_link.h, or, without a bootstrap, agent/os/template_link.h; empty: none.
  Started start(const PreparedSpec& prepared, os::ProcSpec proc, int cgroup,
                const std::vector<UniqueFd>& joins = {}, UniqueFd link = {});

  /// A copy that a template was asked for (agent/os/template_link.h).
  struct Copy {
    Birth birth;  ///< With our ends of the pipes; there is no process yet.
    UniqueFd go;  ///< Where a byte lets the copy run.
  };
  /// Asks the template at the other end of `link`. What the settings of the spec say, the copy has
  /// from the template. A template that is gone is no failure: its end tells.
  tl::expected<Copy, os::SpawnFailure> ask_for_copy(const PreparedSpec& prepared,
                                                    const os::ProcSpec& proc, int cgroup,
                                                    const std::vector<UniqueFd>& joins, int link);

 private:
  ProcStarter(os::Spawner spawner, UniqueFd null, ChildSlots slots, Inheritance inheritance,
              UniqueFd bus_folder)
      : spawner_(std::move(spawner)),
        null_(std::move(null)),
        bus_folder_(std::move(bus_folder)),
        slots_(std::move(slots)),
        inheritance_(inheritance),
        oom_score_(inheritance.oom_score ? std::to_string(*inheritance.oom_score) : std::string()) {
  }
  std::vector<os::ChildPlan::Limit> limits_of(const os::SpawnSpec& spec) const;
  bool merge_environment(const PreparedSpec& prepared, const os::ProcSpec& proc,
                         std::vector<const char*>& env,
                         std::optional<std::string_view>& path) const;
  tl::expected<std::string, os::SpawnFailure> find_program_of(const PreparedSpec& prepared,
                                                              std::optional<std::string_view> path,
                                                              bool path_is_shared) const;
  int make_streams(const os::ProcSpec& proc, os::ChildPlan& plan, Birth& birth);
  /// Gives a mesh proc of another user the folder of the bus, and says so in the bootstrap's text.
  tl::expected<void, os::SpawnFailure> lend_bus_folder(const os::ProcSettings& settings,
                                                       os::ChildPlan& plan, std::string& suffix);
  tl::expected<void, os::SpawnFailure> ask_into(Copy& copy, const PreparedSpec& prepared,
                                                const os::ProcSpec& proc, int cgroup,
                                                const std::vector<UniqueFd>& joins, int link);
  tl::expected<void, os::SpawnFailure> start_into(Started& started, const PreparedSpec& prepared,
                                                  os::ProcSpec& proc, int cgroup,
                                                  const std::vector<UniqueFd>& joins,
                                                  UniqueFd link);

  os::Spawner spawner_;
  UniqueFd null_;
  UniqueFd bus_folder_;
  ChildSlots slots_;
  Inheritance inheritance_;
  std::string oom_score_;  // as the kernel reads it; empty: that of the keeper
};

}  // namespace meshbus::keeper

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "agent/os/limit_places.h"
#include "agent/os/spec.h"
#include "common/base/unique_fd.h"

namespace meshbus::os {

/// The cgroups in which a limited proc is started.
struct ProcGroups {
  UniqueFd cgroup;              ///< A cgroup v2 directory to be born in; empty: none of its own.
  std::vector<UniqueFd> joins;  ///< Files of v1 to join by: join_file_v1().
};

/// How often the kernel has killed in the cgroup of a proc for want of memory.
struct MemoryVerdict {
  std::uint32_t kills = 0;
  bool by_own_limit = false;  ///< The limit of the proc was reached; else that of a cgroup above,
                              ///< or the machine's memory.
};

/// Makes, reads and removes the cgroups of procs that have limits: one for each controller that one
/// needs, with it and its descendants in it. One thread only.
class LimitGroups {
 public:
  explicit LimitGroups(LimitPlaces places) : places_(std::move(places)) {}

  /// `parent`: the cgroup v2 directory that keeps the procs of this mesh together; empty: there is
  /// none. Errors: at stage cgroup, naming limit and file; nothing is left behind.
  tl::expected<ProcGroups, SpawnFailure> make(std::uint64_t id, const GroupLimits& limits,
                                              const std::string& parent);
  /// What has happened to that proc so far.
  MemoryVerdict memory_verdict(std::uint64_t id) const;
  /// Removes the cgroups of that proc; kills what is still in them.
  void remove(std::uint64_t id);
  /// All of them, and what was made for them.
  void remove_all();
  const LimitPlaces& places() const noexcept { return places_; }

 private:
  struct Group {
    Controller controller;
    int version;
    std::string path;
  };
  tl::expected<std::string, SpawnFailure> make_group(std::uint64_t id, const GroupLimits& limits,
                                                     Controller controller,
                                                     const std::string& parent);
  bool make_directory(const std::string& path);

  LimitPlaces places_;
  std::unordered_map<std::uint64_t, std::vector<Group>> groups_;  // by id of the proc
  std::vector<std::string> made_;  // directories of the host that were not there before
};

}  // namespace meshbus::os

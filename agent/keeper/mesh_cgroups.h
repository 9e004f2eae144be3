#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include <tl/expected.hpp>

#include "agent/os/cgroup.h"
#include "agent/os/limit_groups.h"
#include "agent/os/spec.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

/// The cgroups in which procs are born: one for each mesh, with containment by cgroup, and those of
/// procs with limits. One thread.
class MeshCgroups {
 public:
  /// `host`: the host's cgroup v2 for containment; empty: procs are contained otherwise.
  MeshCgroups(std::string host, os::LimitPlaces limits)
      : host_(std::move(host)), limits_(std::move(limits)) {}

  /// Makes what procs without limits are born in. Errors: io_error.
  Result<void> prepare();
  const std::string& host() const noexcept { return host_; }
  const os::LimitPlaces& limit_places() const noexcept { return limits_.places(); }

  /// One more process of this mesh: until leave(). Errors: io_error.
  Result<void> join(const std::string& mesh);
  /// A process of this mesh is dead with all its descendants, or was not started. Removes the
  /// cgroup with the last one.
  void leave(const std::string& mesh);
  /// The cgroup v2 in which a proc of the mesh without limits is born; -1: ours.
  int fd_for(const std::string& mesh) const;
  /// The cgroups of a proc with limits. Errors: at stage cgroup, and nothing is left behind.
  tl::expected<os::ProcGroups, os::SpawnFailure> make_groups(std::uint64_t id,
                                                             const os::SpawnSpec& spec);
  /// The proc with limits is dead with all its descendants.
  void remove_groups(std::uint64_t id) { limits_.remove(id); }
  os::MemoryVerdict memory_verdict(std::uint64_t id) const { return limits_.memory_verdict(id); }

  /// Kills what is in the mesh's cgroup, if it has one.
  void kill(const std::string& mesh) const;
  /// Kills what is in the host's cgroup, if it has one.
  void kill_all() const;
  /// Removes everything, when all procs are dead.
  void remove_all();

 private:
  struct Mesh {
    std::size_t processes = 0;  // running, or exited and not empty
    std::unique_ptr<os::Cgroup> cgroup;
  };
  const os::Cgroup* find(const std::string& mesh) const;

  std::string host_;
  os::LimitGroups limits_;
  std::unique_ptr<os::Cgroup> default_cgroup_;  // for procs without one of their own; null: ours
  std::unordered_map<std::string, Mesh> meshes_;
};

}  // namespace meshbus::keeper

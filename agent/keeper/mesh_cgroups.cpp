#include "agent/keeper/mesh_cgroups.h"

#include <chrono>
#include <utility>

#include "agent/os/cgroup_end.h"

namespace meshbus::keeper {

using namespace std::chrono_literals;

// Counts and limits of the whole host are right in every containment.
Result<void> MeshCgroups::prepare() {
  const std::string host = limits_.places().v2_path();
  if (!host_.empty() || host.empty()) return {};
  auto made = os::Cgroup::make(host, "unlimited");
  if (!made) return fail(made.error());
  default_cgroup_ = std::make_unique<os::Cgroup>(std::move(*made));
  return {};
}

Result<void> MeshCgroups::join(const std::string& mesh) {
  Mesh& known = meshes_[mesh];
  ++known.processes;
  if (host_.empty() || known.cgroup) return {};
  auto made = os::Cgroup::make(host_, os::cgroup_name_of_mesh(mesh));
  if (!made) return fail(made.error());
  known.cgroup = std::make_unique<os::Cgroup>(std::move(*made));
  return {};
}

void MeshCgroups::leave(const std::string& mesh) {
  const auto known = meshes_.find(mesh);
  if (known == meshes_.end() || --known->second.processes > 0) return;
  if (known->second.cgroup) {
    const std::string path = known->second.cgroup->path();
    // All descendants of procs are dead. A process that was moved in from elsewhere is killed.
    if (!os::remove_cgroup_tree(path)) {
      os::kill_cgroup(path);
      os::empty_cgroup(path, 20ms);
      os::remove_cgroup_tree(path);
    }
  }
  meshes_.erase(known);
}

const os::Cgroup* MeshCgroups::find(const std::string& mesh) const {
  const auto known = meshes_.find(mesh);
  return known == meshes_.end() ? nullptr : known->second.cgroup.get();
}

int MeshCgroups::fd_for(const std::string& mesh) const {
  const os::Cgroup* const own = find(mesh);
  const os::Cgroup* const cgroup = own != nullptr ? own : default_cgroup_.get();
  return cgroup == nullptr ? -1 : cgroup->fd();
}

tl::expected<os::ProcGroups, os::SpawnFailure> MeshCgroups::make_groups(std::uint64_t id,
                                                                        const os::SpawnSpec& spec) {
  const os::Cgroup* const parent = find(spec.mesh);
  return limits_.make(id, spec.settings.group, parent == nullptr ? std::string() : parent->path());
}

void MeshCgroups::kill(const std::string& mesh) const {
  if (const os::Cgroup* const cgroup = find(mesh)) os::kill_cgroup(cgroup->path());
}

void MeshCgroups::kill_all() const {
  if (!host_.empty()) os::kill_cgroup(host_);
}

void MeshCgroups::remove_all() {
  limits_.remove_all();
  if (host_.empty()) return;
  os::empty_cgroup(host_, 500ms);
  os::remove_cgroup_tree(host_);
}

}  // namespace meshbus::keeper

#include "agent/proc/runtime/world.h"

#include <utility>

#include "common/base/log.h"

namespace meshbus::mesh_proc {

bool World::update(const MeshLayout& layout) {
  if (layout.revision <= revision_) return false;
  auto mesh =
      ProcMeshRef::make(mesh_.get().mesh(), layout.hosts, layout.region.num_ranks(), layout.region);
  const auto self = mesh ? mesh->proc_of(rank_) : Result<ProcId>(fail(mesh.error()));
  if (!self || *self != self_) {
    log::warn("the mesh is said to have a layout in which this proc is not rank " +
              std::to_string(rank_) + (self ? "" : ": " + self.error().detail()));
    return false;
  }
  revision_ = layout.revision;
  mesh_.set(std::move(*mesh));
  return true;
}

}  // namespace meshbus::mesh_proc

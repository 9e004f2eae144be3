#pragma once

#include <cstdint>

#include "common/address/current_mesh.h"
#include "common/address/mesh_layout.h"
#include "meshbus/address.h"

namespace meshbus::mesh_proc {

/// The mesh of this proc, as it is now. update() is for the reactor's thread, mesh() for any.
class World {
 public:
  /// `self`: this proc, create rank `rank`.
  World(const ProcMeshRef& mesh, std::uint32_t revision, ProcId self, std::uint64_t rank)
      : mesh_(mesh), revision_(revision), self_(std::move(self)), rank_(rank) {}

  /// References that it has returned stay valid.
  const ProcMeshRef& mesh() const noexcept { return mesh_.get(); }
  /// The mesh was resized. False: that was known, or it cannot be.
  bool update(const MeshLayout& layout);

 private:
  CurrentMesh mesh_;
  std::uint32_t revision_;
  const ProcId self_;
  const std::uint64_t rank_;
};

}  // namespace meshbus::mesh_proc

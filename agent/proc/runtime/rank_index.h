#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "meshbus/proc_mesh_ref.h"

namespace meshbus::mesh_proc {

/// The rank of each proc of a mesh, by key. Made when it is asked first; any thread.
class RankIndex {
 public:
  /// `mesh` must outlive this.
  explicit RankIndex(const ProcMeshRef& mesh) : mesh_(mesh) {}
  std::optional<std::uint64_t> find(std::uint64_t proc_key);

 private:
  const ProcMeshRef& mesh_;
  std::once_flag once_;
  std::unordered_map<std::uint64_t, std::uint64_t> ranks_;
};

}  // namespace meshbus::mesh_proc

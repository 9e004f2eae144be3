#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "meshbus/proc_mesh_ref.h"

namespace meshbus::mesh_proc {

/// Which rank of a mesh this proc is, and the rank of each other proc by key: that table is made
/// when it is asked first. Any thread.
class RankIndex {
 public:
  /// `mesh` must outlive this. `create_rank`: this proc's.
  RankIndex(const ProcMeshRef& mesh, std::uint64_t create_rank)
      : mesh_(mesh), own_(mesh.ordinal_of(create_rank).value_or(create_rank)) {}
  std::uint64_t own() const noexcept { return own_; }
  std::optional<std::uint64_t> find(std::uint64_t proc_key);

 private:
  const ProcMeshRef& mesh_;
  const std::uint64_t own_;
  std::once_flag once_;
  std::unordered_map<std::uint64_t, std::uint64_t> ranks_;
};

}  // namespace meshbus::mesh_proc

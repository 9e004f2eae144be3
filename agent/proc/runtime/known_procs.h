#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/bus/bus.h"
#include "meshbus/address.h"
#include "meshbus/proc_mesh_ref.h"

namespace meshbus::mesh_proc {

/// The keys of the ranks and of the proc that a thread has sent to last: computing them takes
/// longer than sending. One for each thread and mesh.
class KnownProcs {
 public:
  /// Errors: out_of_range.
  Result<const Destination*> rank(const ProcMeshRef& mesh, std::uint64_t rank);
  const Destination& proc(const ProcId& id);

 private:
  struct Row {
    std::optional<std::uint64_t> rank;
    Destination keys;  ///< Without the host's address.
  };
  std::array<Row, 64> rows_;
  const ProcMeshRef* rows_of_ = nullptr;  ///< The mesh after its last resize is another one.
  std::optional<ProcId> id_;
  Destination keys_;
};

inline Result<const Destination*> KnownProcs::rank(const ProcMeshRef& mesh, std::uint64_t rank) {
  if (rows_of_ != &mesh) {
    rows_.fill({});
    rows_of_ = &mesh;
  }
  Row& row = rows_[rank % rows_.size()];
  if (row.rank != rank) {
    const auto id = mesh.proc_at(rank);
    if (!id) return fail(id.error());
    row = {rank, {id->key(), id->host().key(), {}}};
  }
  return &row.keys;
}

inline const Destination& KnownProcs::proc(const ProcId& id) {
  if (id_ != id) {
    keys_ = {id.key(), id.host().key(), {}};
    id_ = id;
  }
  return keys_;
}

}  // namespace meshbus::mesh_proc

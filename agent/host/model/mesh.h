#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/model/host_update.h"
#include "agent/host/model/mesh_ownership.h"
#include "agent/host/model/proc.h"
#include "agent/host/streams/output_relay.h"
#include "meshbus/overlay.h"
#include "meshbus/status.h"

namespace meshbus::host {

/// What the procs of one mesh write, as far as it concerns the mesh as a whole. Written by
/// OutputReader and, for its readers, LogStreams.
struct MeshOutput {
  /// Only while output is streamed to an owner.
  bool is_relaying = false;
  OutputRelay relay;
  std::deque<std::pair<std::uint64_t, wire::Stream>> paused;  ///< Rank, stream.
  std::string log_directory;                                  ///< Empty: no files.
  std::size_t log_readers = 0;                                ///< See LogStreams.
  std::size_t unflushed = 0;  ///< Bytes that readers may not have been sent yet.
};

/// What this host has of one mesh. Each group of fields has one writer, named at its type.
struct Mesh {
  Mesh(MeshSpec with, Reactor::Time now)
      : spec(std::move(with)),
        name(spec.mesh.to_string()),
        ownership(spec.owner, spec.lease, spec.may_restart, now) {}

  /// Null when that rank is not here.
  Proc* find(std::uint64_t rank) const {
    const auto found = procs.find(rank);
    return found == procs.end() ? nullptr : found->second.get();
  }

  /// Whether that rank is part of the mesh as it is now: others were taken away by a resize.
  bool has(std::uint64_t rank) const {
    return spec.revision == 0 || rank < spec.region.num_ranks();
  }
  /// Whether all that is known here was taken away.
  bool is_left() const { return !procs.empty() && !has(procs.begin()->first); }
  /// The mesh was resized.
  void resize(const MeshLayout& layout) {
    spec.region = layout.region;
    spec.hosts = layout.hosts;
    spec.revision = layout.revision;
  }

  /// The first request, with the layout of now (resize()); the present owner is in `ownership`.
  /// Written by SpawnService and Recovery.
  MeshSpec spec;
  const std::string name;

  /// By rank; empty: the ranks are not bound. Written by SpawnService and Recovery.
  std::map<std::uint64_t, RankBinding> bindings;

  // Written by ProcTable.
  std::map<std::uint64_t, std::unique_ptr<Proc>> procs;  ///< By rank.
  std::size_t live = 0;
  std::size_t remembered = 0;  ///< Exit reports that are still there.
  MeshUpdates updates;
  /// The ProcTable has it in its list of changes for the ledger.
  bool is_touched = false;
  /// The statuses of all ranks, put together by RankWaits when first asked for. Nothing: something
  /// has changed since.
  std::optional<std::vector<RankRun<Status::Kind>>> statuses;

  MeshOwnership ownership;  ///< Written by MeshOwners.
  ChangeStamp stamp;
  /// Peers that are told every change. Written by the services.
  std::map<std::string, ProcId> subscribers;
  /// The requests that made it, as they stand in the ledger. Written by LedgerWriter.
  std::vector<std::string> requests;
  MeshOutput output;
};

}  // namespace meshbus::host

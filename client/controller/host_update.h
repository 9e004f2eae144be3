#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/src/restart/restart_plan.h"
#include "common/address/mesh_layout.h"
#include "meshbus/address.h"
#include "meshbus/rank_report.h"
#include "meshbus/region.h"
#include "meshbus/result.h"
#include "wire/actors_generated.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// The owner of a mesh, as an agent says.
struct OwnerUpdate {
  std::string owner;
  std::chrono::milliseconds lease{0};
  wire::OwnerLoss loss = wire::OwnerLoss::stop;
  bool is_gone = false;      ///< Nobody does.
  bool may_restart = false;  ///< When all ranks have ended, other incarnations may follow.
  /// What the owner, or one before, has left there.
  std::optional<RestartPlan> restarts = {};
  /// Ranks there that somebody has stopped: they are not restarted.
  RankSet stopped = {};
  std::uint64_t incarnation = 0;  ///< The owner's process; 0 = not known.
};

/// What an agent says about ranks of a mesh.
struct RankUpdate {
  std::vector<wire::RankState> ranks;
  std::vector<std::shared_ptr<const wire::ExitReportT>> exit_reports;
  /// None: nothing new.
  std::optional<OwnerUpdate> owner = {};
  /// The mesh was resized. None: nothing new.
  std::optional<MeshLayout> layout = {};
  /// Those that have changed; in a list of all that an agent has, the present ones.
  std::vector<wire::RankTrouble> troubles = {};
  /// For each Trouble::stuck in `troubles`.
  std::vector<std::shared_ptr<const wire::StuckHandlerT>> stuck = {};
};

/// What an agent says about a mesh: as an answer to GetState and StreamState all of it, in a list
/// without exit reports.
struct MeshUpdate {
  std::string mesh;
  Region region;
  std::vector<HostAddr> hosts;
  RankUpdate ranks_update;
};

/// One page of what a host has, by name.
struct ListUpdate {
  std::vector<MeshUpdate> meshes;
  std::string after;
  bool more = false;
  /// Whether others follow behind the last of these.
  bool is_page() const { return more && !meshes.empty(); }
};

/// A host says that it is there.
struct HostUpdate {
  std::uint64_t incarnation = 0;  ///< The incarnation of its agent.
  std::uint64_t live = 0;         ///< Procs that have not ended.
  /// Nothing: nobody owns it.
  std::optional<OwnerUpdate> owner = {};
};

/// What a proc says of its actors: those that have changed; as an answer, all of one name, or none.
struct ActorUpdate {
  std::vector<std::shared_ptr<const wire::ActorStateT>> actors;
};

/// What became of a question; nothing = it was done.
using HostAnswer =
    Result<std::variant<std::monostate, HostUpdate, ListUpdate, MeshUpdate, ActorUpdate>>;

/// Whether nobody has answered, so that nothing is known of the host or proc that was asked.
bool is_silence(ErrorCode code);

RankUpdate to_update(const flatbuffers::Vector<const wire::RankState*>* ranks,
                     const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
                     const flatbuffers::Vector<const wire::RankTrouble*>* troubles,
                     const flatbuffers::Vector<flatbuffers::Offset<wire::StuckHandler>>* stuck);
std::optional<OwnerUpdate> to_update(const wire::Ownership* ownership);
std::optional<OwnerUpdate> to_update(const wire::HostOwner* owner);
/// Errors: malformed_message.
Result<MeshUpdate> to_update(const wire::MeshState& state);
/// What cannot be read of it is left out.
ListUpdate to_update(const wire::MeshList& list);
ActorUpdate to_update(const flatbuffers::Vector<flatbuffers::Offset<wire::ActorState>>* actors);

}  // namespace meshbus

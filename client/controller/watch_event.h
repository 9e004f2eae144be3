#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/rank_state.h"
#include "meshbus/address.h"
#include "meshbus/rank_report.h"
#include "meshbus/region.h"
#include "meshbus/status.h"
#include "wire/actors_generated.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Something that a controller has to say. Large because: it has the fields of all kinds, and is
/// one record on the wire and in a history, too.
struct WatchEvent {
  enum class Kind {
    state,             ///< A rank is in another state than was said before.
    host_unreachable,  ///< A host does not answer. That is no death: its procs may be well.
    host_back,         ///< It answers again.
    query_failed,  ///< The agent of a host answers, but not what it was asked: about the agent, not
                   ///< about a rank.
    ended,         ///< Every rank of a mesh has ended and was told: it is watched no longer.
    trouble,       ///< A live rank is slow or frozen, or is not any more: `trouble`.
    restarting,    ///< Ranks begin another incarnation: `ranks`, and `problem` in words.
    given_up,      ///< Ranks that would be restarted are not: likewise.
    resized,       ///< The mesh has grown or shrunk: `ranks` came, or went, and `problem` says so.
    late,  ///< The controller itself was late: what it was to notice meanwhile it has noticed late.
  };
  Kind kind = Kind::state;
  std::string
      mesh;  ///< Empty: about a host as a whole, or the controller. Of actors: their ActorsName.
  HostAddr host = HostAddr::local(0);
  wire::RankState rank;
  std::shared_ptr<const wire::ExitReportT> exit_report;
  std::shared_ptr<const wire::ActorStateT>
      actor;  ///< What an actor said itself; null when its end is that of its proc.
  std::shared_ptr<const Region> region;  ///< The region of the mesh.
  std::string problem;                   ///< What is wrong with a host, in words.
  wire::RankTrouble trouble;
  std::shared_ptr<const wire::StuckHandlerT> stuck;  ///< With Trouble::stuck.
  RankSet ranks;                                     ///< For restarting, given_up, resized.
  /// For restarting: how often each of `ranks` was started before, in order; empty: not known.
  std::vector<std::uint32_t> restarts;
  bool went = false;             ///< For resized: `ranks` are gone.
  std::uint64_t generation = 0;  ///< Counts what there was to tell of the mesh.
  Status::Kind overall = Status::Kind::unknown;
  std::chrono::milliseconds lateness{0};

  /// Where the rank is in its mesh: "host=0/2,gpu=1/4".
  std::string point() const;
  /// Whether it is about a rank.
  bool is_of_rank() const noexcept { return kind == Kind::state || kind == Kind::trouble; }
};

/// The state of an actor in its own terms: initializing, running, stopping, stopped, failed. On the
/// wire it has those of procs.
std::string_view state_of_actor(const wire::RankState& state);

/// The earlier end first: the cause before its consequences. What has no time comes last.
bool is_earlier_end(const WatchEvent& a, const WatchEvent& b);

/// Events as messages to a subscriber, one mesh, host and kind each, each well below the limit of a
/// message. `late` travels in heartbeats.
std::vector<wire::MeshEventT> to_messages(const std::vector<WatchEvent>& events, std::uint64_t poll,
                                          bool is_snapshot);

}  // namespace meshbus

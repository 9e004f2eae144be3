#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "agent/host/model/change_stamp.h"
#include "agent/host/model/proc_exit.h"
#include "agent/host/model/proc_launch.h"
#include "agent/host/model/proc_output.h"
#include "agent/host/model/proc_state.h"
#include "agent/host/model/proc_stop.h"
#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

struct Mesh;

/// What was last seen of a live process. Written by UsageSampler.
struct UsageSample {
  wire::RankUsage seen;           ///< sampled_ns 0: nothing was seen.
  std::uint64_t start_ticks = 0;  ///< Tells the process from a later one with the same number.
  Reactor::Time at{};
};

/// One incarnation of one rank on this host. Each group of fields has one writer, named at its
/// type. Lives on the agent's reactor thread, in the ProcTable.
/// Large because: it is a plain record of groups that different classes write.
struct Proc {
  Proc(Mesh& in, std::shared_ptr<const Assignment> assignment, ProcState at,
       std::uint64_t keeper_id, LineTail::Limits tail)
      : mesh(in),
        id(keeper_id),
        host_index(assignment->spec.host_index),
        address(assignment->spec.hosts[host_index],
                proc_name(assignment->spec.mesh, at.to_wire().rank())),
        key(address.key()),
        state(at),
        launch(std::move(assignment), at.to_wire().rank()),
        output(tail) {
    if (host::contains(launch.assignment()->spec.input_ranks, rank()))
      input.state = InputPipe::State::open;
  }

  std::uint64_t rank() const noexcept { return state.to_wire().rank(); }
  std::uint64_t incarnation() const noexcept { return state.to_wire().incarnation(); }
  bool has_ended() const noexcept { return state.has_ended(); }
  /// See ProcExit.
  bool is_over() const noexcept {
    return has_ended() && exit.is_reported() && (exit.is_empty() || !launch.is_born());
  }

  Mesh& mesh;
  const std::uint64_t id;  ///< Between agent and keeper.
  const std::uint32_t host_index;
  const ProcId address;
  const std::uint64_t key;
  ProcState state;  ///< Written by ProcEnding and LaunchMonitor.
  ProcLaunch launch;
  ProcStop stop;
  ProcExit exit;
  ProcOutput output;
  InputPipe input;
  UsageSample sample;
  /// The trouble of a live mesh proc that is ready. Written by LivenessMonitor.
  wire::RankTrouble trouble;
  /// With Trouble::stuck: which handler, as its last heartbeat said. Written by LivenessMonitor.
  std::unique_ptr<wire::StuckHandlerT> stuck;
  ChangeStamp stamp;
  /// The ProcTable has it in its list of changes for the ledger.
  bool is_touched = false;
};

}  // namespace meshbus::host

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/model/environment.h"
#include "agent/host/model/lease.h"
#include "agent/host/model/mesh_spec.h"
#include "agent/host/model/proc_state.h"
#include "agent/host/model/termination.h"
#include "agent/host/streams/line_tail.h"
#include "agent/host/streams/log_file.h"
#include "agent/host/streams/output_relay.h"
#include "agent/host/streams/stream_offsets.h"
#include "agent/keeper/protocol.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/overlay.h"
#include "meshbus/status.h"
#include "wire/forward.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

/// What the host agent knows: plain data, changed by the classes beside this file. Everything lives
/// on the agent's reactor thread.
namespace meshbus::host {

struct Mesh;

/// One SpawnProcs: what its ranks have in common until they are started.
struct Assignment {
  MeshSpec spec;
  Environment environment;
};

/// Reading end of one output stream of a proc.
struct OutputPipe {
  OutputPipe(wire::Stream which, LineTail::Limits limits) : stream(which), tail(limits) {}

  wire::Stream stream;
  UniqueFd fd;          // empty: not there yet, or at its end
  bool paused = false;  // not watched, because the owner is slow
  LineTail tail;
  std::unique_ptr<LogFile> file;  // when the host keeps files
  StreamOffsets at;
  StreamOffsets before;  // where this life of the rank begins
};

/// Writing end of the stdin of a proc.
struct InputPipe {
  enum class State { none, open, closed };  // none: stdin is not a pipe

  State state = State::none;
  UniqueFd fd;  // empty before the birth
  std::string pending;
  bool end_after = false;
  /// Of the WriteInput under way. Empty: there is none.
  std::function<void(Result<void>)> done;
};

/// How far the start of a proc is.
enum class SpawnProgress {
  queued,  ///< Waits for its turn.
  asked,   ///< The keeper has it.
  born,    ///< There is, or was, a process.
  none,    ///< There never will be one.
};

/// Why a proc counts as failed when it ends, whatever way it ends.
struct Failure {
  wire::ErrorCode code = wire::ErrorCode::none;
  int os_error = 0;
  std::string text;
  wire::Cause cause = wire::Cause::none;
  /// Of the end of something else.
  bool consequence = false;
};

/// What was seen last of a live process.
struct UsageSample {
  wire::RankUsage seen;           ///< sampled_ns 0: nothing.
  std::uint64_t start_ticks = 0;  ///< Of the process that it was.
  Reactor::Time at{};
};

/// One rank on this host.
struct Proc {
  Proc(Mesh& in, std::shared_ptr<const Assignment> by, ProcState at, std::uint64_t keeper_id,
       LineTail::Limits tail);

  Mesh& mesh;
  std::shared_ptr<const Assignment> assignment;
  std::uint64_t id;  // between agent and keeper
  std::uint32_t host_index;
  ProcId address;
  std::uint64_t key;
  ProcState state;
  /// See schemas/supervision.fbs.
  wire::LaunchTimes launch;
  /// The times were told: they do not change any more.
  bool launch_told = false;

  SpawnProgress progress = SpawnProgress::queued;
  Reactor::Time asked{};  // by this agent's clock
  bool said_ready = false;
  /// Bit n = signal n. Held: to be sent at the birth.
  std::uint64_t held_signals = 0;
  std::uint64_t sent_signals = 0;

  std::optional<Termination> termination;
  Reactor::TimerId termination_timer = 0;
  std::optional<Failure> failure;
  std::string stopped_by;
  std::string stop_reason;
  wire::Cause stop_cause = wire::Cause::stopped;
  std::optional<std::uint64_t> because;

  /// Of its output in the spool; 0 = none.
  std::uint32_t slot = 0;
  OutputPipe out;
  OutputPipe err;
  bool output_ended = false;
  InputPipe input;

  std::optional<ProcEnd> end;
  keeper::Exit usage;
  UsageSample sample;
  /// Of a live mesh proc that is ready; see LivenessMonitor.
  wire::RankTrouble trouble;
  Reactor::TimerId drain_timer = 0;
  bool gone = false;  // no descendant is left
  /// Whether the exit report was made. It goes, and this stays, when the record is forgotten.
  bool exit_reported = false;
  std::unique_ptr<wire::ExitReportT> exit_report;
  /// It has changed since it was last written down.
  bool is_touched = false;

  std::uint64_t rank() const noexcept { return state.to_wire().rank(); }
  bool has_ended() const noexcept { return state.has_ended(); }
};

/// What this host has of one mesh.
struct Mesh {
  Mesh(MeshSpec with, Reactor::Time now)
      : spec(std::move(with)),
        name(spec.mesh.to_string()),
        owner_key(spec.owner.key()),
        lease(now, spec.lease) {}

  MeshSpec spec;  // of the first request
  std::string name;
  std::uint64_t owner_key;
  std::map<std::uint64_t, std::unique_ptr<Proc>> procs;  // by rank
  /// Null when it is not here.
  Proc* find(std::uint64_t rank) const;
  /// Whether new lives may follow when all ranks have ended. Not with another owner than its first
  /// one.
  bool begins_anew() const noexcept { return spec.begins_anew && !owner_gone && handed_by.empty(); }
  /// How all of them stand, for those who ask often: put together when asked for. Nothing:
  /// something has changed since.
  std::optional<std::vector<RankRun<Status::Kind>>> statuses;
  std::size_t live = 0;
  std::size_t remembered = 0;  // exit reports that are still there

  Lease lease;
  Reactor::TimerId lease_timer = 0;

  /// Nobody answers for it any more.
  bool owner_gone = false;
  /// The connection of the owner has ended, and it has not been heard of since: the lease counts.
  bool owner_away = false;
  wire::OwnerLoss loss = wire::OwnerLoss::stop;
  /// Who has handed it to its owner; empty: nobody, it is that of the request.
  std::string handed_by;
  std::map<std::string, ProcId> subscribers;
  /// These, or the length of the lease, have changed since they were last written down.
  bool is_touched = false;
  /// The requests that made it, as they stand in the ledger.
  std::vector<std::string> requests;

  /// Only while relaying: output = stream, and there is an owner.
  bool relaying = false;
  OutputRelay relay;
  std::deque<std::pair<std::uint64_t, wire::Stream>> paused;  // rank, stream

  std::string log_directory;    // empty: no files
  std::size_t log_readers = 0;  // see LogStreams
  std::size_t unflushed = 0;    // bytes that readers may not have been sent yet

  /// Not yet told.
  std::vector<wire::RankState> changes;
  std::vector<std::unique_ptr<wire::ExitReportT>> exit_reports;
  std::vector<wire::RankTrouble> troubles;
};

inline Proc* Mesh::find(std::uint64_t rank) const {
  const auto found = procs.find(rank);
  return found == procs.end() ? nullptr : found->second.get();
}

inline Proc::Proc(Mesh& in, std::shared_ptr<const Assignment> by, ProcState at,
                  std::uint64_t keeper_id, LineTail::Limits tail)
    : mesh(in),
      assignment(std::move(by)),
      id(keeper_id),
      host_index(assignment->spec.host_index),
      address(assignment->spec.hosts[host_index],
              proc_name(assignment->spec.mesh, at.to_wire().rank())),
      key(address.key()),
      state(at),
      out(wire::Stream::out, tail),
      err(wire::Stream::err, tail) {
  launch.mutate_rank(rank());
  if (host::contains(assignment->spec.input_ranks, rank())) input.state = InputPipe::State::open;
}

}  // namespace meshbus::host

#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/host/model/mesh.h"
#include "agent/host/output/spool_slots.h"
#include "agent/host/streams/output_spool.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Reads along: LogStreams. Called only while MeshOutput::log_readers is not 0.
class OutputFollower {
 public:
  virtual ~OutputFollower() = default;
  /// More is about to come than the tails can hold: send what is there.
  virtual void flush(Mesh& mesh) = 0;
  /// The stream has more, or has ended.
  virtual void on_output(Proc& proc, OutputPipe& pipe) = 0;
};

/// Reads what procs write: into their tails and files, and for the owner into the relay of their
/// mesh (spec 10.1, 10.2). Stops reading the pipes of a mesh whose owner is slow; what a proc wrote
/// before its end is read all the same. Lives on the reactor's thread.
class OutputReader {
 public:
  OutputReader(Reactor& reactor, OutputSpool& spool, SpoolSlots& slots, OutputFollower& follower,
               LogFile::Limits files)
      : reactor_(reactor), spool_(spool), slots_(slots), follower_(follower), file_limits_(files) {}

  /// The proc is born, or the keeper hands over its pipes once more.
  void attach(Proc& proc, UniqueFd out, UniqueFd err);
  /// The proc comes from another agent: its last lines, and what its owner had not taken, are what
  /// that agent left in the spool. `parts`: the log files of its mesh.
  void take_over(Proc& proc, const LogFile::PartsByName& parts);
  /// The process has ended: reads exactly what is in the pipes now. It does not read "until nothing
  /// comes": a descendant that floods could keep that away.
  void read_rest(Proc& proc);
  /// The descendants are gone: reads to the end, or as far as something is there.
  void finish(Proc& proc);
  /// No more output from this proc, whatever is still in its pipes. Needed for every proc once,
  /// also for those that were never started.
  void close(Proc& proc);

  /// From now on what the procs of this mesh write is relayed to its owner.
  void start_relaying(Mesh& mesh);
  /// A rank was restarted: the relay goes on where its streams ended.
  void continue_relay(Proc& proc);
  /// The owner has taken some output, or asks for it once more.
  void on_taken(Mesh& mesh, const wire::OutputTaken& taken);
  /// There is no owner to send to any more: from now on only tails and files.
  void stop_relaying(Mesh& mesh);
  /// The mesh is forgotten.
  void forget(Mesh& mesh);
  /// Goes on with some of the pipes that had to wait. Returns the meshes that have something to
  /// send. Call it at the end of each turn.
  std::vector<Mesh*> resume();

 private:
  void keep_file(Proc& proc, OutputPipe& pipe, const LogFile::PartsByName& parts);
  void restore_relay(Proc& proc, OutputPipe& pipe, Bytes kept);
  void watch(Proc& proc, OutputPipe& pipe);
  void on_readable(Proc& proc, OutputPipe& pipe);
  enum class Outcome { some, nothing_now, end };
  /// Reads at most `most` bytes; `bytes` is how many.
  Outcome read(Proc& proc, OutputPipe& pipe, std::size_t most, std::size_t& bytes);
  void read_available(Proc& proc, OutputPipe& pipe);
  void end(Proc& proc, OutputPipe& pipe);
  void close_pipe(OutputPipe& pipe);
  void mark_ended(Proc& proc, OutputPipe& pipe);
  void resume(Mesh& mesh);

  Reactor& reactor_;
  OutputSpool& spool_;
  SpoolSlots& slots_;
  OutputFollower& follower_;
  LogFile::Limits file_limits_;
  std::set<Mesh*> relaying_;
  std::string buffer_ = std::string(64 * 1024, '\0');
};

}  // namespace meshbus::host

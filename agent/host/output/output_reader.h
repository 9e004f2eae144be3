#pragma once

#include <functional>
#include <string>

#include "agent/host/model/proc.h"
#include "agent/host/streams/output_spool.h"
#include "common/loop/reactor.h"

namespace meshbus::host {

/// Reads what procs write: into their tails and files, and for the owner into their mesh's relay
/// (spec 10.1, 10.2). Stops reading the pipes of a mesh whose owner is slow; what a proc wrote
/// before its end is read all the same. Lives on the reactor's thread.
class OutputReader {
 public:
  /// For those who read along (LogStreams); called only while Mesh::log_readers is not 0.
  struct Events {
    /// More is about to come than tails can hold: send what is there.
    std::function<void(Mesh&)> flush;
    /// That stream has more, or has ended.
    std::function<void(Proc&, OutputPipe&)> on_news;
  };
  OutputReader(Reactor& reactor, OutputSpool& spool, Events events, LogFile::Limits files)
      : reactor_(reactor), spool_(spool), events_(std::move(events)), file_limits_(files) {}

  void attach(Proc& proc, UniqueFd out, UniqueFd err);
  /// It comes from another agent: its last lines, and what its owner had not taken, are what that
  /// one left in the spool. `aside`: the log files of its mesh.
  void take_over(Proc& proc, const LogFile::Aside& aside);
  /// The process has ended: takes exactly what is in the pipes now. Never "until nothing comes": a
  /// descendant that floods could keep that away.
  void drain(Proc& proc);
  /// The descendants are gone: reads to the end, or as far as something is there.
  void finish(Proc& proc);
  /// No more output from this proc, whatever is still in its pipes. Needed for every proc once,
  /// also for those that were never started.
  void close(Proc& proc);
  /// The owner may take something: goes on with some of those that had to wait. Call it at the end
  /// of each turn.
  void resume(Mesh& mesh);
  /// There is no owner to send to any more: from now on only the tails.
  void stop_relaying(Mesh& mesh);

 private:
  void keep_file(Proc& proc, OutputPipe& pipe, const LogFile::Aside& aside);
  void watch(Proc& proc, OutputPipe& pipe);
  void on_readable(Proc& proc, OutputPipe& pipe);
  enum class Outcome { some, nothing_now, end };
  /// Reads at most `most` bytes; `bytes` is how many.
  Outcome read(Proc& proc, OutputPipe& pipe, std::size_t most, std::size_t& bytes);
  void take_available(Proc& proc, OutputPipe& pipe);
  void end(Proc& proc, OutputPipe& pipe);
  void mark_ended(Proc& proc, OutputPipe& pipe);

  Reactor& reactor_;
  OutputSpool& spool_;
  Events events_;
  LogFile::Limits file_limits_;
  std::string buffer_ = std::string(64 * 1024, '\0');
};

}  // namespace meshbus::host

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/lifecycle/memory_kills.h"
#include "agent/host/model/proc_table.h"
#include "agent/host/output/input_writer.h"
#include "agent/host/output/output_reader.h"
#include "agent/keeper/keeper_client.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {

/// Who wants procs ended, and how.
struct StopOrder {
  std::string reason;
  std::string requester;
  std::chrono::milliseconds grace{0};
  wire::Cause cause = wire::Cause::stopped;
  std::optional<std::uint64_t> because = {};  ///< The rank whose end is the reason.
};

/// Ends procs, and says how they ended: the steps of a stop, signals, exits, the last output, exit
/// reports (spec 4.6, 4.9). Lives on the reactor's thread.
class ProcEnding {
 public:
  struct Events {
    /// Something of it is to be told: Mesh::changes or Mesh::exit reports has grown.
    std::function<void(Mesh&)> on_changed;
    /// Send StopAndExit; when that does not reach it, call skip_ask(id).
    std::function<void(Proc&, std::chrono::milliseconds grace, const std::string& reason)> ask;
    /// It has just reached an end; `ok`: not by being given up.
    std::function<void(Proc&, bool ok)> on_ended;
    /// No descendant of it is left.
    std::function<void(Proc&)> on_gone;
    /// Its exit report was made: nothing more will be said of it.
    std::function<void(Proc&)> on_exit_report;
  };
  ProcEnding(Reactor& reactor, keeper::KeeperClient& keeper, ProcTable& table,
             OutputReader& outputs, InputWriter& inputs, Events events, MemoryKills memory)
      : reactor_(reactor),
        keeper_(keeper),
        table_(table),
        outputs_(outputs),
        inputs_(inputs),
        events_(std::move(events)),
        memory_(std::move(memory)) {}

  /// Ends a proc; one that has ended is left alone. A second order can only hasten the first.
  void stop(Proc& proc, const StopOrder& order);
  void stop(Mesh& mesh, const StopOrder& order);
  /// Kills it; however it ends, it counts as failed.
  void kill_as_failed(Proc& proc, Failure failure);
  /// It ends here and now, without a process: could not be started, or nobody can say what became
  /// of it.
  void fail(Proc& proc, Failure failure);
  /// A stop came before there was a process.
  void cancel(Proc& proc);
  /// The question of Events::ask did not arrive.
  void skip_ask(std::uint64_t id);
  /// A signal for the process group of a proc; one that has ended is left alone, one that is not
  /// born yet gets it at its birth.
  void signal(Proc& proc, int signal);
  /// It is born: what has been asked for in the meantime happens to it now. Returns whether it may
  /// go on to be Ready.
  bool on_born(Proc& proc);
  /// It was given up before it was born.
  void kill_unwanted(Proc& proc) { send_signal(proc, SIGKILL); }

  /// It comes from another agent, perhaps with a stop that is under way: goes on with that.
  void resume(Proc& proc);

  void on_exit(const keeper::Exit& exit);
  void on_gone(const keeper::Gone& gone);
  /// The state of a proc has changed.
  void publish(Proc& proc);

 private:
  void begin(Proc& proc, std::chrono::milliseconds grace, bool can_ask);
  void run(Proc& proc);
  void give_up(Proc& proc);
  void send_signal(Proc& proc, int signal);
  /// It has just reached an end, in whatever way.
  void after_end(Proc& proc);
  /// The last output may still be on its way.
  void await_output(Proc& proc);
  void let_forget(const Proc& proc);
  void finish_output(Proc& proc);
  void report_exit(Proc& proc);
  /// How it ended, by itself or by whom: the words, the cause, what it is a consequence of.
  void explain(const Proc& proc, wire::ExitReportT& exit_report);

  Reactor& reactor_;
  keeper::KeeperClient& keeper_;
  ProcTable& table_;
  OutputReader& outputs_;
  InputWriter& inputs_;
  Events events_;
  MemoryKills memory_;
  /// Of processes of several procs, by pid and time: what was found out about their end with the
  /// first one.
  std::map<std::pair<std::uint32_t, std::int64_t>, OutOfMemory> shared_ends_;
};

}  // namespace meshbus::host

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/lifecycle/exit_explainer.h"
#include "agent/host/model/proc_table.h"
#include "agent/host/output/input_writer.h"
#include "agent/host/output/output_reader.h"
#include "agent/keeper/keeper_client.h"
#include "common/loop/reactor.h"

namespace meshbus::host {

/// Follows the ends of procs; see ProcExit for the states. Implemented by MeshProcs.
class EndObserver {
 public:
  virtual ~EndObserver() = default;
  /// The proc has just reached an end; `ok`: it was not given up.
  virtual void on_ended(const Proc& proc, bool ok) = 0;
  /// No descendant of the proc is left.
  virtual void on_empty(const Proc& proc) = 0;
  /// The exit report is made: nothing more is said about the proc.
  virtual void on_reported(Proc& proc) = 0;
};

/// A StopAndExit that is to be sent to a proc. When it does not arrive: ProcEnding::skip_ask.
struct StopQuestion {
  std::uint64_t id = 0;  ///< Proc::id.
  ProcId proc;
  std::chrono::milliseconds grace{0};
  std::string reason;
};

/// Ends procs: the steps of a stop, signals, exits, the last output, exit reports (spec 4.6, 4.9).
/// Lives on the reactor's thread.
/// Large because: an end has many steps, and each of them is one function here.
class ProcEnding {
 public:
  ProcEnding(Reactor& reactor, keeper::KeeperClient& keeper, ProcTable& table,
             OutputReader& outputs, InputWriter& inputs, EndObserver& observer, MemoryKills memory,
             ErrorFiles errors)
      : reactor_(reactor),
        keeper_(keeper),
        table_(table),
        outputs_(outputs),
        inputs_(inputs),
        observer_(observer),
        explainer_(std::move(memory), std::move(errors)) {}

  /// Ends a proc; one that has ended is left alone. A second order can only hasten the first.
  void stop(Proc& proc, const StopOrder& order);
  void stop(Mesh& mesh, const StopOrder& order);
  /// Kills it; however it ends, it counts as failed.
  void kill_as_failed(Proc& proc, Failure failure);
  /// It ends here and now, without a process: it could not be started, or is lost.
  void fail(Proc& proc, Failure failure);
  /// A stop came before there was a process.
  void cancel(Proc& proc);
  /// The StopAndExit did not arrive.
  void skip_ask(std::uint64_t id);
  /// A signal for the process group of a proc; one that has ended is left alone, one that is not
  /// born yet gets it at its birth.
  void signal(Proc& proc, int signal);
  /// Stops that proc on purpose for a time; after_signals() says whether it was done.
  void hold(const keeper::Hold& hold);
  /// Call it before signals whose sender asks what became of them: after_signals() then says
  /// nothing of the refusals of earlier ones, those of stops for instance.
  void forget_refusals();
  /// Calls it once: when each signal so far has been sent, or its proc has ended. The error names
  /// the first rank of `mesh`, since forget_refusals(), that did not get one, and why. A rank that
  /// is not born yet is not waited for.
  void after_signals(const std::string& mesh, std::function<void(const Result<void>&)> after);
  /// It is born: carries out what was asked for in the meantime. Returns whether it may go on to be
  /// Ready.
  bool on_born(Proc& proc);
  /// It was given up before it was born.
  void kill_unwanted(Proc& proc) { send_signal(proc, SIGKILL); }
  /// The proc comes from another agent: goes on with a stop that is under way.
  void resume(Proc& proc);

  void on_exit(const keeper::Exit& exit);
  void on_gone(const keeper::Gone& gone);

  /// The questions since the last call. Send them at the end of the turn.
  std::vector<StopQuestion> take_questions() { return std::exchange(questions_, {}); }

 private:
  void begin(Proc& proc, std::chrono::milliseconds grace, bool can_ask);
  void run(Proc& proc);
  void carry_out(Proc& proc, Termination::Action action);
  void give_up(Proc& proc);
  void send_signal(Proc& proc, int signal);
  /// It has just reached an end, in whatever way.
  void after_end(Proc& proc);
  /// The last output may still be on its way.
  void await_output(Proc& proc);
  void finish_output(Proc& proc);
  void report_exit(Proc& proc);
  /// The keeper need not know the proc any more, when it is over.
  void let_forget(const Proc& proc);

  Reactor& reactor_;
  keeper::KeeperClient& keeper_;
  ProcTable& table_;
  OutputReader& outputs_;
  InputWriter& inputs_;
  EndObserver& observer_;
  ExitExplainer explainer_;
  std::vector<StopQuestion> questions_;
};

}  // namespace meshbus::host

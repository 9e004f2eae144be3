#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/proc/actors/actor_system.h"
#include "agent/proc/loop/work_queue.h"
#include "agent/proc/runtime/actor_sends.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/handler_intake.h"
#include "agent/proc/runtime/proc_life.h"
#include "agent/proc/runtime/settings_port.h"
#include "agent/proc/runtime/shared_loop.h"
#include "agent/proc/runtime/stop_signals.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "meshbus/proc.h"

namespace meshbus::mesh_proc {

/// Carries out the end of a proc: runs on_stop(), stops the actors, lets what is queued leave, and
/// ends the process, or, where several procs share a process, cuts this one off from the bus. What
/// comes first, and until when, is ProcLife's. Lives on the reactor's thread unless a function says
/// otherwise.
class ProcEnding {
 public:
  /// What it works with; outlives it.
  struct Parts {
    const Bootstrap& bootstrap;
    const std::function<void(Proc&, const std::string& reason)>& on_stop;
    bool has_main;
    /// SIGTERM and SIGINT are the program's own.
    bool leaves_signals;
    Proc& proc;
    SharedLoop& loop;
    ProcLife& life;
    WorkQueue& work;
    ActorSystem& actors;
    HandlerIntake& intake;
    const SettingsPort& settings;
    const ActorSends& actor_sends;
  };
  /// `is_process`: the process is this proc's own, and ends with it; SIGTERM and SIGINT stop it,
  /// unless they are the program's.
  /// Throws std::system_error when there is no descriptor left. `on_cut`: it has just been cut off.
  ProcEnding(const Parts& parts, bool is_process, std::function<void()> on_cut);
  ProcEnding(const ProcEnding&) = delete;
  ProcEnding& operator=(const ProcEnding&) = delete;

  /// Before everything else.
  void attach(Bus& bus);

  /// A request to stop: the first one decides code and reason, a later one can only make the end
  /// come sooner.
  void begin_stop(int code, std::chrono::milliseconds grace, const std::string& reason);
  void on_signal(int number);
  /// The program ends by itself, by exit().
  void begin_exit();
  /// Stops the actors, so that those that are stuck are known before `end`.
  void stop_actors(const std::string& reason, Reactor::Time end, std::function<void()> done);
  /// Sends what is queued, for a short while at most, leaves the bus, then goes on with `then`.
  void leave(std::function<void()> then) { leave(Reactor::Time::max(), std::move(then)); }
  /// Any thread: the process ends here, or the pseudo-proc is cut off soon.
  void quit(int code, const std::string& why);
  /// The same with a line on stderr; in a turn.
  void end_now(int code, const std::string& line);

  bool is_process() const noexcept { return is_process_; }

 private:
  /// The proc ends at that time, unless it was to end sooner.
  void limit_life(Reactor::Time end);
  void on_grace_over();
  void leave(Reactor::Time end, std::function<void()> then);
  void wait_to_leave(Reactor::Time give_up, std::function<void()> then);
  /// Queues the program's on_stop().
  void call_on_stop(const std::string& reason);
  /// For a pseudo-proc: it leaves the bus, and everything that still runs will notice.
  void cut_off(int code, const std::string& why);

  const Parts parts_;
  Reactor& reactor_;
  const bool is_process_;
  const std::function<void()> on_cut_;
  std::optional<StopSignals> signals_;
  Bus* bus_ = nullptr;
  Reactor::TimerId grace_timer_ = 0;
};

}  // namespace meshbus::mesh_proc

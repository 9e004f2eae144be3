#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <zmq.hpp>

#include "agent/proc/actors/actor_system.h"
#include "agent/proc/loop/work_queue.h"
#include "agent/proc/runtime/agent_link.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/handler_intake.h"
#include "agent/proc/runtime/live_settings.h"
#include "agent/proc/runtime/proc_sender.h"
#include "agent/proc/runtime/rank_index.h"
#include "agent/proc/runtime/stop_sequence.h"
#include "agent/proc/runtime/stop_signals.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "meshbus/proc.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus::mesh_proc {

/// What is behind a Proc: the reactor's thread with the connection to the broker, the handlers'
/// thread, and how the two and main() come to an end together. Where the proc is a process there is
/// one, never destroyed, because other threads may use it until the process is gone. A pseudo-proc
/// (client/local) is one of many in its process: where the other would end the process at once it
/// is cut off from the bus, and has ended when its threads have returned.
///
/// Functions are called on the reactor's thread unless they say otherwise: that is whichever is in
/// a turn of the reactor. The handlers' thread, or one of those of actors, turns it while it has
/// nothing to run; the one that was made for it, meanwhile. Of the former at most one waits in the
/// reactor: the one that has run something last, since what comes next is most likely for it. What
/// it hears that is for the others it leaves to them, and sleeps.
class Runtime {
 public:
  enum class Kind : std::uint8_t { process, pseudo };

  /// Errors: configuration_error, what is wrong with it.
  static Result<void> check(const ProcProgram& program);
  /// Throws std::system_error and zmq::error_t when there are no descriptors or no memory left.
  /// Nothing runs before run(). `on_cut`, of a pseudo-proc: it has just been cut off; on the
  /// reactor's thread.
  Runtime(Bootstrap bootstrap, ProcProgram program, Kind kind = Kind::process,
          std::function<void()> on_cut = {});
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// On the thread that called bootstrap(): makes the threads, waits for Ready, runs main(), whose
  /// exceptions come through. Returns the exit code; shutdown() is to follow.
  int run();
  /// At exit(code): lets handlers end and messages leave, and joins the threads. Of a pseudo-proc:
  /// waits for all that it runs, however long that takes.
  void shutdown(int code);

  // For a pseudo-proc, on any thread until shutdown() returns.
  /// What SIGTERM or SIGINT would do.
  void stop(int signal);
  /// What SIGKILL would do, as far as that is possible.
  void cut(const std::string& why);
  int exit_code() const noexcept { return exit_code_; }
  bool is_cut() const noexcept { return is_cut_; }

  // For Proc, on any thread of the program.
  Proc& proc() noexcept { return proc_; }
  const Bootstrap& bootstrap() const noexcept { return bootstrap_; }
  std::uint64_t rank() const noexcept { return rank_; }
  std::optional<std::uint64_t> rank_of(std::uint64_t proc_key) { return ranks_.find(proc_key); }
  ProcSender& sender() noexcept { return sender_; }
  /// Requests leave now: the caller is about to wait for the answer.
  void flush() { sender_.outgoing().flush_now(); }
  /// Whether the caller may wait for an answer: would_block on the reactor's thread and for a
  /// handler that waits for its own proc; refused in a child of fork().
  Result<void> check_caller(const ProcId& to) const;
  bool stop_requested() noexcept;
  bool wait_for_stop(std::chrono::milliseconds at_most);

 private:
  /// What a caller's time is cut to, so that adding it to now cannot overflow.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

  void run_reactor();
  /// A thread of handlers or actors that has nothing to do: takes over the reactor, so that a
  /// message need not wake one thread after the other. Until `is_enough`; not at all while another
  /// one does so.
  void turn_meanwhile(const std::function<bool()>& is_enough);
  Dispatcher make_handlers();
  Bus::Events make_events();

  /// A call to the port of settings: what this proc goes by, changed first when that is wanted.
  void on_settings(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body);
  void apply_settings();

  void on_ready();
  void on_refused(const Error& error);

  ActorSystem::Outside make_outside();
  void on_stop_and_exit(const Request& request, const wire::StopAndExit& message);
  /// Whether our own host's agent sent that; otherwise refuses it.
  bool is_from_agent(const Request& request);
  /// The process ends at that time, unless it was to end sooner.
  void limit_life(Reactor::Time end);
  void on_signal(int number);
  void begin_stop(int code, std::chrono::milliseconds grace, const std::string& reason);
  void on_grace_over();
  /// Sends what is queued, leaves the bus, then goes on with `then`.
  void leave(Reactor::Time give_up, std::function<void()> then);
  /// The process ends here, or the pseudo-proc is cut off.
  void quit(int code, const std::string& why);
  /// The same with a line on stderr.
  void end_now(int code, const std::string& line);
  /// For a pseudo-proc: it leaves the bus, and everything that still runs will notice.
  void cut_off(int code, const std::string& why);
  /// Stops the actors, so that those that are stuck are known before `end`.
  void stop_actors(const std::string& reason, Reactor::Time end, std::function<void()> done);
  /// When the proc ends at the latest.
  Reactor::Time last_moment();
  /// A part of what a stop waits for is done.
  void note_drained();

  /// Whether this thread is in a turn of the reactor.
  static inline thread_local bool is_reactor_thread_ = false;

  const Kind kind_;
  const std::function<void()> on_cut_;
  Bootstrap bootstrap_;
  ProcProgram program_;
  std::uint64_t rank_;
  LiveSettings settings_;
  bool has_worker_;
  Proc proc_;
  std::atomic<int> exit_code_{1};

  zmq::context_t context_;
  Reactor reactor_;
  std::optional<StopSignals> signals_;
  std::unique_ptr<Bus> bus_;
  /// Set on the reactor's thread: nothing comes from the bus any more, and nothing leaves.
  std::atomic<bool> is_cut_{false};
  ProcSender sender_;
  RankIndex ranks_{bootstrap_.mesh};
  AgentLink agent_;
  Reactor::TimerId grace_timer_ = 0;
  std::atomic<bool> is_stopped_{false};
  /// Another thread than the one that was made for it waits in the reactor, or turns it.
  std::atomic<bool> is_helped_{false};

  WorkQueue work_;
  ActorSystem actors_;
  HandlerIntake intake_;
  std::thread thread_;

  /// Whether a main() would notice a stop: see ProcProgram::on_stop.
  std::atomic<bool> stop_is_watched_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;  // guarded by mutex_, like what follows
  StopSequence stops_;
};

}  // namespace meshbus::mesh_proc

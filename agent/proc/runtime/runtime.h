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
#include <unordered_map>
#include <vector>

#include <zmq.hpp>

#include "agent/proc/actors/actor_system.h"
#include "agent/proc/loop/work_queue.h"
#include "agent/proc/runtime/agent_link.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/live_settings.h"
#include "agent/proc/runtime/message_run.h"
#include "agent/proc/runtime/stop_sequence.h"
#include "agent/proc/runtime/stop_signals.h"
#include "agent/proc/runtime/taken_reports.h"
#include "common/base/forks.h"
#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "common/bus/outgoing.h"
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
  std::optional<std::uint64_t> rank_of(std::uint64_t proc_key);
  std::future<Result<std::string>> call(const ProcId& to, std::uint32_t port, std::string_view body,
                                        std::chrono::milliseconds deadline);
  /// The same without waiting: `answer` is called on the reactor's thread, once, unless the
  /// process ends first.
  void call(const ProcId& to, std::uint32_t port, std::string_view body,
            std::chrono::milliseconds deadline, Bus::CallAnswer answer);
  /// `shared`: null, or what the body is a view of.
  Result<void> send(const ProcId& to, std::uint32_t port, std::string_view body,
                    const SharedBody* shared, std::chrono::milliseconds patience);
  Result<void> send(std::uint64_t rank, std::uint32_t port, std::string_view body,
                    const SharedBody* shared, std::chrono::milliseconds patience);
  Result<void> cast(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                    std::chrono::milliseconds patience);
  /// Waits.
  Result<CastAnswers::Answers> call_all(const ProcMeshRef& to, std::uint32_t port,
                                        std::string_view body, std::chrono::milliseconds deadline);
  /// What was asked leaves now: the caller is about to wait for the answer.
  void flush() { outgoing_.flush_now(); }
  /// Whether the caller may wait for an answer: would_block on the reactor's thread and for a
  /// handler that waits for its own proc; refused in a child of fork().
  Result<void> check_caller(const ProcId& to) const;
  bool stop_requested() noexcept;
  bool wait_for_stop(std::chrono::milliseconds at_most);

 private:
  /// What a program may have waiting to leave before send() waits. The number bounds how long an
  /// answer waits behind small messages.
  static constexpr Bus::Most kSendMost{.bytes = 16 * 1024 * 1024, .queued = 16 * 1024};
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
  void on_delivery(const Bus::Delivery& delivery);
  /// A message for a handler; null: for an actor, which has it already.
  void add_message(const ProcProgram::Handler* handler, const Bus::Delivery& delivery,
                   std::optional<Point> point);
  void add_call(const ProcProgram::Handler& handler, const Bus::Delivery& delivery,
                std::optional<Point> point);
  /// What was added until now is the handlers' thread's. Before anything else is queued for it.
  void close_run();
  /// Handlers' thread.
  void handle_message(const MessageRun::Message& message);
  Error is_behind() const;
  /// For a cast: the place of this rank in its view.
  std::optional<Point> point_of(const CastBody& cast);
  /// Errors: refused (after fork), too_large.
  Result<void> check_send(std::size_t bytes) const;
  /// Errors: refused (after fork), too_large.
  Result<std::shared_ptr<const CastPlan>> plan_cast(const ProcMeshRef& to, std::size_t bytes);
  void on_undelivered(const wire::Envelope& envelope, const Error& error);
  /// On the handlers' thread: a call.
  void handle(const ProcProgram::Handler& handler, const wire::Envelope& envelope,
              const wire::CallHeader& header, const Incoming& incoming);

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

  bool is_forked() const noexcept { return count_forks() != forks_; }

  /// Whether this thread is in a turn of the reactor.
  static inline thread_local bool is_reactor_thread_ = false;
  static inline std::atomic<std::uint64_t> next_number_{1};

  const Kind kind_;
  const std::function<void()> on_cut_;
  Bootstrap bootstrap_;
  ProcProgram program_;
  const unsigned forks_ = count_forks();
  /// The runtimes that this process has had.
  const std::uint64_t number_ = next_number_++;
  std::uint64_t rank_;
  LiveSettings settings_;
  bool has_worker_;
  Proc proc_;
  std::atomic<int> exit_code_{1};

  zmq::context_t context_;
  Reactor reactor_;
  std::optional<StopSignals> signals_;
  std::unique_ptr<Bus> bus_;
  Outgoing outgoing_;
  AgentLink agent_;
  Reactor::TimerId grace_timer_ = 0;
  std::atomic<bool> is_stopped_{false};
  /// Set on the reactor's thread: nothing comes from the bus any more, and nothing leaves.
  std::atomic<bool> is_cut_{false};
  /// Another thread than the one that was made for it waits in the reactor, or turns it.
  std::atomic<bool> is_helped_{false};
  log::Limited lost_log_{1};

  WorkQueue work_;
  /// Messages that the handlers' thread has, or will have. Reactor's thread, like what follows.
  MessageRuns runs_;
  TakenReports taken_;
  /// Messages that came back and wait for the handlers' thread.
  std::atomic<std::size_t> returns_{0};
  ActorSystem actors_;
  std::thread thread_;

  /// Whether a main() would notice a stop: see ProcProgram::on_stop.
  std::atomic<bool> stop_is_watched_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;  // guarded by mutex_, like what follows
  StopSequence stops_;

  std::mutex plans_mutex_;
  CastPlans plans_;
  /// The last view that something was cast to, as it was written, and our place in it.
  std::string cast_front_;
  std::optional<Point> cast_point_;

  std::once_flag ranks_once_;
  std::unordered_map<std::uint64_t, std::uint64_t> rank_of_key_;
};

}  // namespace meshbus::mesh_proc

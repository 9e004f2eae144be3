#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/proc/actors/actor_system.h"
#include "agent/proc/loop/work_queue.h"
#include "agent/proc/runtime/actor_sends.h"
#include "agent/proc/runtime/agent_link.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/handler_intake.h"
#include "agent/proc/runtime/proc_ending.h"
#include "agent/proc/runtime/proc_life.h"
#include "agent/proc/runtime/proc_sender.h"
#include "agent/proc/runtime/rank_index.h"
#include "agent/proc/runtime/settings_port.h"
#include "agent/proc/runtime/shared_loop.h"
#include "agent/proc/runtime/world.h"
#include "common/bus/bus.h"
#include "common/bus/cast.h"
#include "meshbus/proc.h"

namespace meshbus::mesh_proc {

/// Wires the parts behind a Proc together. The reactor's thread has the connection to the
/// broker (SharedLoop), the handlers' thread and those of actors run the program, and ProcLife says
/// how these and main() come to an end together. Where the proc is a process there is one, never
/// destroyed, because other threads may use it until the process is gone. A pseudo-proc
/// (client/local) is one of many in its process: where the other would end the process at once it
/// is cut off from the bus, and has ended when its threads have returned.
///
/// Functions are called on the reactor's thread unless they say otherwise: that is whichever is in
/// a turn of the reactor.
/// Large because: it owns every part of a proc and joins them.
class Runtime {
 public:
  enum class Kind : std::uint8_t { process, pseudo };

  /// Errors: configuration_error, what is wrong with it.
  static Result<void> check(const ProcProgram& program);
  /// The same, of what it is started with: settings that it does not have.
  static Result<void> check(const ProcProgram& program, const Bootstrap& bootstrap);
  static bool has_main(const ProcProgram& program) noexcept { return program.main_ != nullptr; }
  static bool leaves_signals(const ProcProgram& program) noexcept {
    return program.leaves_signals_;
  }
  /// Throws std::system_error when there are no descriptors or no memory left, and
  /// std::runtime_error where check() has an error.
  /// Nothing runs before run(). `on_cut`, of a pseudo-proc: it has just been cut off; on the
  /// reactor's thread.
  Runtime(Bootstrap bootstrap, ProcProgram program, Kind kind = Kind::process,
          std::function<void()> on_cut = {});
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// On the thread that called bootstrap(): start(), then main(), whose exceptions come through.
  /// Returns the exit code; shutdown() is to follow.
  int run();
  /// Makes the threads and waits for Ready. False: a stop came first. shutdown() is to follow.
  /// Throws std::system_error when there are no threads to be had.
  bool start();
  /// At exit(code): lets handlers end and messages leave, and joins the threads. Of a pseudo-proc:
  /// waits for all that it runs, however long that takes.
  void shutdown(int code);

  // For a pseudo-proc, on any thread until shutdown() returns.
  /// What SIGTERM or SIGINT would do.
  void stop(int signal);
  /// What SIGKILL would do, as far as that is possible.
  void cut(const std::string& why);
  int exit_code() const noexcept { return life_.exit_code(); }
  bool is_cut() const noexcept { return life_.is_cut(); }

  // For Proc, on any thread of the program.
  Proc& proc() noexcept { return proc_; }
  const Bootstrap& bootstrap() const noexcept { return bootstrap_; }
  const ProcMeshRef& mesh() const noexcept { return world_.mesh(); }
  std::uint64_t rank() const noexcept { return ranks_.own(); }
  std::optional<std::uint64_t> rank_of(std::uint64_t proc_key) { return ranks_.find(proc_key); }
  ProcSender& sender() noexcept { return sender_; }
  /// Never waits. Errors: too_large, queue_full.
  Result<void> send_to_actor(const ActorId& to, const BodyParts& body) {
    return actor_sends_.send(to.proc(), actor_port(to), body);
  }
  const ProgramSettings& program_settings() const noexcept { return settings_.program(); }
  /// Waits for the answer. Only after check_caller().
  Result<std::string> call(const ProcId& to, std::uint32_t port, const BodyParts& body,
                           std::chrono::milliseconds deadline) {
    const auto answer = sender_.call_for(to, port, body, deadline);
    loop_.turn_until([&answer] { return answer->is_here(); });
    return answer->take();
  }
  /// Waits for all of them. Errors: those of the whole.
  Result<CastAnswers::Answers> call_all(const ProcMeshRef& to, std::uint32_t port,
                                        const BodyParts& body, std::chrono::milliseconds deadline) {
    auto answers = sender_.call_all(to, port, body, deadline);
    if (!answers) return fail(answers.error());
    return wait(std::move(*answers));
  }
  /// Whether the caller may wait for an answer: would_block on the reactor's thread and for a
  /// handler that waits for its own proc; refused in a child of fork().
  Result<void> check_caller(const ProcId& to) const;
  bool stop_requested() noexcept { return life_.stop_requested(); }
  std::optional<StopRequest> stop_request();
  bool wait_for_stop(std::chrono::milliseconds at_most) { return life_.wait_for_stop(at_most); }

 private:
  /// The program needs the handlers' thread.
  bool has_worker() const noexcept;
  /// On the thread that was made for the reactor, until the end.
  void run_reactor();
  /// Has the caller turn the reactor until the answer is there.
  template <typename Answer>
  Answer wait(std::future<Answer> answer) {
    loop_.turn_until([&answer] {
      return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    return answer.get();
  }
  /// The handler, of a port or of an actor, that has run for longer than handler.stuck.
  std::optional<BusyHandler> find_stuck();
  Dispatcher make_handlers();
  Bus::Events make_events();
  ActorSystem::Outside make_outside();

  Bootstrap bootstrap_;
  ProcProgram program_;
  Proc proc_;
  World world_;
  ProcLife life_;
  SharedLoop loop_;
  std::unique_ptr<Bus> bus_;
  ProcSender sender_;
  ActorSends actor_sends_;
  RankIndex ranks_;
  AgentLink agent_;
  SettingsPort settings_;
  WorkQueue work_;
  ActorSystem actors_;
  HandlerIntake intake_;
  ProcEnding ending_;
};

}  // namespace meshbus::mesh_proc

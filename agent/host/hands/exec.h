#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/host/hands/exec_input.h"
#include "agent/host/hands/exec_pipes.h"
#include "agent/host/lifecycle/side_processes.h"
#include "common/bus/bus.h"

namespace meshbus::host {

/// One exec (schemas/hands.fbs): its process, its streams, its end. Lives on the reactor's thread.
class Exec {
 public:
  struct Spec {
    ProcId requester;
    std::uint64_t number = 0;
    std::string mesh;
    std::uint64_t rank = 0;
    std::uint64_t rank_incarnation = 0;
    bool has_terminal = false;
    bool has_input = false;
    std::chrono::milliseconds lease{0};
  };
  struct Events {
    /// There is a process; or why not, and then nothing follows.
    std::function<void(Result<std::uint32_t> pid)> on_started;
    /// It is over, and its requester knows that or is gone: it may be destroyed, not from inside.
    std::function<void()> on_over;
  };

  Exec(Bus& bus, SideProcesses& processes, Spec spec, Events events);
  ~Exec();
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;

  const Spec& spec() const noexcept { return spec_; }
  /// Errors: those of SideProcesses::start().
  Result<void> start(os::SpawnSpec shared);

  /// Its requester has said something.
  void on_heard();
  ExecInput& input() noexcept { return input_; }
  void signal(int signal);
  void taken(std::uint64_t sequence, bool resend, bool ended);
  /// SIGHUP, and SIGKILL a moment later; `now`: SIGKILL. `reason`: for people.
  void end(const std::string& reason, bool now);
  /// Its requester is gone: the same, and nothing is sent to it any more.
  void abandon(const std::string& reason);
  /// Output on its way may be lost, or has come back: this sends it again.
  void resend();

 private:
  struct Timers {
    Reactor::TimerId lease = 0;
    Reactor::TimerId kill = 0;
    Reactor::TimerId resend = 0;
  };

  /// What its requester is told, and may have missed.
  struct Telling {
    bool is_end_told = false;   ///< Perhaps in vain.
    bool is_end_owed = false;   ///< The queue was full.
    bool is_all_again = false;  ///< Output that is not taken, and the end.
  };

  void on_birth(keeper::Birth birth);
  void on_exit(const keeper::Exit& exit);
  void on_gone();
  void flush();
  void retry_later();
  void finish_if_ended();
  void tell_end();
  void be_over();
  void watch_lease();

  Bus& bus_;
  SideProcesses& processes_;
  Spec spec_;
  Events events_;
  std::optional<std::uint64_t> id_;  ///< The process, as long as there may be one.
  ExecInput input_;
  ExecPipes pipes_;
  std::optional<keeper::Exit> exit_;
  std::string reason_;
  bool is_born_ = false;
  bool is_abandoned_ = false;
  bool is_over_ = false;
  Reactor::Time heard_;
  Timers timers_;
  Telling telling_;
};

}  // namespace meshbus::host

#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/proc/actors/busy_handler.h"
#include "agent/proc/runtime/agent_timeout.h"
#include "agent/proc/runtime/bootstrap.h"
#include "common/address/mesh_layout.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/wire/dispatcher.h"
#include "wire/forward.h"

namespace meshbus::mesh_proc {

/// What a proc and its host's agent say to each other: ready, heartbeats, the agent's orders to
/// end, and that the agent stays away. Lives on the reactor's thread.
class AgentLink {
 public:
  struct Events {
    /// The agent knows that this proc is Ready. Comes again after each new session.
    std::function<void()> on_ready;
    /// The agent, or the broker on the way to it, stayed away too long; `line` says so to people.
    /// Nothing is said to it any more.
    std::function<void(const std::string& line)> on_away;
    /// The agent wants this proc to stop (StopAndExit); it has been answered.
    std::function<void(int code, std::chrono::milliseconds grace, const std::string& reason)>
        on_stop;
    /// The agent wants this proc to end at once (Exit).
    std::function<void(int code)> on_exit;
    /// The mesh was resized; it has been answered.
    std::function<void(const MeshLayout& layout)> on_world;
    /// The handler that has run for too long, if any: the agent is to know. At each heartbeat.
    std::function<std::optional<BusyHandler>()> find_stuck;
  };
  /// `bootstrap` must outlive this.
  AgentLink(Reactor& reactor, const Bootstrap& bootstrap, Events events);
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  /// The agent's orders. They are refused when another sender gives them.
  void add_handlers(Dispatcher& handlers);
  /// Begins to watch; `bus` must outlive this.
  void start(Bus& bus);
  /// The bus has a session (again).
  void on_up();
  void on_down();

  /// How long the agent may stay away, from now on. (At first: as the bootstrap says.)
  void set_away_limit(std::chrono::milliseconds limit);

 private:
  void on_stop_and_exit(const Request& request, const wire::StopAndExit& message);
  void on_exit(const Request& request, const wire::Exit& message);
  void on_world_changed(const Request& request, const wire::WorldChanged& message);
  /// Whether our own host's agent sent that; otherwise refuses it.
  bool is_from_agent(const Request& request);
  void say_ready();
  void ask();
  void on_tick();
  void arm_tick(Reactor::Duration delay);

  Reactor& reactor_;
  const Bootstrap& bootstrap_;
  Events events_;
  ProcId agent_;
  std::chrono::milliseconds away_limit_;
  AgentTimeout away_;
  Bus* bus_ = nullptr;
  bool is_ready_ = false;
  std::chrono::system_clock::time_point hello_at_{};
  Reactor::TimerId tick_timer_ = 0;
  Reactor::Time tick_due_{};
  Reactor::Time next_heartbeat_{};
};

}  // namespace meshbus::mesh_proc

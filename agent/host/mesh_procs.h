#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/input_writer.h"
#include "agent/host/output_reader.h"
#include "agent/host/proc_table.h"
#include "agent/host/shutdown_queue.h"
#include "agent/host/spawner.h"
#include "agent/keeper/keeper_client.h"
#include "common/config.h"
#include "common/reactor.h"

namespace meshbus::host {

/// Who wants procs ended, and how.
struct StopOrder {
  std::string reason;
  std::string requester;
  std::chrono::milliseconds grace{0};
};

/// What became of a shutdown.
struct ShutdownOutcome {
  std::size_t attempted = 0;
  std::size_t failed = 0;
  std::string detail;
};

/// The procs of one host: starts, watches and stops them by way of the keeper. Knows nothing of the bus: what happens to a mesh collects in
/// Mesh::changes, Mesh::certificates and Mesh::relay until the caller sends it.
///
/// Lives on the reactor's thread. Meshes and procs are valid until forget_old() says otherwise.
class MeshProcs {
 public:
  struct Options {
    std::string host;  ///< For people: in the texts of certificates.
    Config config;
    Environment environment;  ///< What procs inherit.
  };
  struct Events {
    /// Something of it is to be told: see above.
    std::function<void(Mesh&)> on_changed;
    /// Send StopAndExit; when that does not reach it, call skip_ask(id).
    std::function<void(Proc&, std::chrono::milliseconds grace, const std::string& reason)> ask;
    /// The keeper is dead: every live proc has been reported as failed. Nothing can be done here any more.
    std::function<void()> on_keeper_lost;
  };

  MeshProcs(Reactor& reactor, UniqueFd keeper_socket, BootstrapWriter bootstraps, Options options, Events events);
  ~MeshProcs();
  MeshProcs(const MeshProcs&) = delete;
  MeshProcs& operator=(const MeshProcs&) = delete;

  ProcTable& table() noexcept { return table_; }

  /// Starts the ranks that are not there yet; returns how many. Errors: refused (other procs of that name, or shutting down), too_large.
  Result<std::uint64_t> spawn(MeshSpec spec);
  /// Ends a proc; one that has ended is left alone. A second order can only hasten the first.
  void stop(Proc& proc, const StopOrder& order);
  void stop(Mesh& mesh, const StopOrder& order);
  /// The question of Events::ask did not arrive.
  void skip_ask(std::uint64_t id);
  /// A signal for the process group of a proc; one that has ended is left alone, one that is not born yet gets it at its birth.
  void signal(Proc& proc, int signal);
  void write_input(Proc& proc, Bytes data, bool end, std::function<void(Result<void>)> done) {
    inputs_.write(proc, data, end, std::move(done));
  }
  /// A mesh proc says that it is up.
  void on_ready(Proc& proc);
  void renew_lease(Mesh& mesh, std::chrono::milliseconds length);
  /// Nobody answers for this mesh any more: stops it within a second.
  void on_owner_gone(Mesh& mesh);
  void on_output_taken(Mesh& mesh, std::uint64_t bytes);

  /// Ends every proc, at most `in_flight` at a time, and calls `done` when they and their descendants are gone. From now on nothing is
  /// started. A second call can only hasten the first; all get the same outcome.
  void shut_down(const StopOrder& order, std::size_t in_flight, std::function<void(const ShutdownOutcome&)> done);
  bool is_shutting_down() const noexcept { return shutdown_ != nullptr; }

  /// Call it at the end of each turn, before what has collected is sent: starts what there is room for, talks to the keeper, reads on.
  void end_turn();
  /// Call it after that: forgets what is too old or too much.
  void forget_old(const std::function<void(Mesh&)>& on_forgotten);

 private:
  struct Shutdown {
    StopOrder order;
    ShutdownQueue queue;
    std::set<std::uint64_t> lingering;  // ended, but with descendants
    Reactor::TimerId timer = 0;
    std::optional<ShutdownOutcome> outcome;
    std::vector<std::function<void(const ShutdownOutcome&)>> waiting;
  };

  void watch_keeper();
  void on_birth(keeper::Birth birth);
  void on_exit(const keeper::Exit& exit);
  void on_gone(const keeper::Gone& gone);
  void on_lost();
  void on_spawn_failed(Proc& proc, const Error& error);
  void check_ready(const std::shared_ptr<const Assignment>& assignment);
  void fail_unready(Proc& proc, std::chrono::milliseconds limit);
  void check_lease(const std::string& name);
  void arm_lease(Mesh& mesh);

  void begin_termination(Proc& proc, std::chrono::milliseconds grace, bool can_ask);
  void run_termination(Proc& proc);
  void send_signal(Proc& proc, int signal);

  /// The state of a proc has changed.
  void publish(Proc& proc);
  /// It has just reached an end, in whatever way.
  void after_end(Proc& proc);
  void finish_output(Proc& proc);
  void certify(Proc& proc);
  void pump_shutdown();
  void finish_shutdown();

  Reactor& reactor_;
  Options options_;
  Events events_;
  LineTail::Limits tail_;
  ProcTable table_;
  BootstrapWriter bootstraps_;
  OutputReader outputs_;
  InputWriter inputs_;
  keeper::KeeperClient keeper_;
  Spawner spawner_;
  bool keeper_writing_ = false;
  std::set<Mesh*> reading_;  // meshes that relay
  std::unique_ptr<Shutdown> shutdown_;
};

}  // namespace meshbus::host

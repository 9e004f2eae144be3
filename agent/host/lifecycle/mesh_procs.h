#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/host/lifecycle/drains.h"
#include "agent/host/lifecycle/proc_ending.h"
#include "agent/host/lifecycle/spawner.h"
#include "agent/host/lifecycle/usage_sampler.h"
#include "agent/host/model/proc_table.h"
#include "agent/host/output/input_writer.h"
#include "agent/host/output/output_reader.h"
#include "agent/host/records/event_book.h"
#include "agent/host/records/ledger_writer.h"
#include "agent/host/streams/output_spool.h"
#include "agent/keeper/keeper_client.h"
#include "agent/os/limit_places.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"

namespace meshbus::host {

/// The procs of one host: starts, watches and stops them by way of the keeper. Knows nothing of the
/// bus: what happens to a mesh collects in Mesh::changes, Mesh::exit reports and Mesh::relay until
/// the caller sends it.
///
/// Lives on the reactor's thread. Meshes and procs are valid until forget_old() says otherwise.
class MeshProcs {
 public:
  struct Options {
    std::string host;  ///< For people: in the texts of exit reports.
    Config config;
    Environment environment;         ///< What procs inherit.
    bool own_pid_namespace = false;  ///< The keeper's numbers of processes are not ours.
    HostAddr address;      ///< Of this host: requests of another agent's time are checked again.
    Ledger ledger;         ///< With what another agent has left, which is taken over. May be none.
    OutputSpool spool;     ///< Likewise.
    EventLog events = {};  ///< May be none.
    keeper::LimitPlaces limits = {};  ///< Where the keeper makes cgroups for procs with limits.
  };
  struct Events {
    /// Something of it is to be told: see above.
    std::function<void(Mesh&)> on_changed;
    /// Somebody else, or nobody, answers for it.
    std::function<void(Mesh&)> on_owner_changed;
    /// At the end of each turn: what was asked for is in the ledger, and the keeper does not know
    /// yet what it is to start.
    std::function<void()> on_written;
    /// Send StopAndExit; when that does not reach it, call skip_ask(id).
    std::function<void(Proc&, std::chrono::milliseconds grace, const std::string& reason)> ask;
    /// The keeper is dead: every live proc has been reported as failed. Nothing can be done here
    /// any more.
    std::function<void()> on_keeper_lost;
    /// Why the keeper is dead, if anybody has said so: "it was frozen". May be empty.
    std::function<std::string()> why_keeper_lost = {};
    /// For those who read along.
    OutputReader::Events output;
  };

  MeshProcs(Reactor& reactor, UniqueFd keeper_socket, BootstrapWriter bootstraps, Options options,
            Events events);
  ~MeshProcs();
  MeshProcs(const MeshProcs&) = delete;
  MeshProcs& operator=(const MeshProcs&) = delete;

  /// Goes on with what another agent has left in the ledger. Once, before the first turn; from here
  /// on events may come.
  void take_over();
  ProcTable& table() noexcept { return table_; }
  EventBook& events() noexcept { return book_; }

  /// Starts the ranks that are not there yet, or begins new lives (MeshSpec::restarts); returns how
  /// many. `entry`: the request for the ledger (LedgerWriter::request_entry). Errors: refused
  /// (other procs of that name, or shutting down), too_large, configuration_error (limits that
  /// cannot be kept here), would_block (a former life is not over), not_exist (nothing is known of
  /// one).
  Result<std::uint64_t> spawn(MeshSpec spec, std::string entry);
  /// See ProcEnding.
  void stop(Proc& proc, const StopOrder& order) { ending_.stop(proc, order); }
  void skip_ask(std::uint64_t id) { ending_.skip_ask(id); }
  void signal(Proc& proc, int signal) { ending_.signal(proc, signal); }
  /// See InputWriter.
  void write_input(Proc& proc, Bytes data, bool end, std::function<void(Result<void>)> done) {
    inputs_.write(proc, data, end, std::move(done));
  }
  /// A mesh proc says that it is up, and since when it has been connected and greeted (nanoseconds
  /// since 1970, 0 = it does not say).
  void on_ready(Proc& proc, std::int64_t connected_ns, std::int64_t hello_ns);
  /// Length 0: as long as before.
  void renew_lease(Mesh& mesh, std::chrono::milliseconds length);
  /// The owner's connection has ended: stops the mesh within a second, or leaves that to its lease
  /// (Mesh::loss).
  void on_owner_gone(Mesh& mesh);
  /// It is heard of again.
  void on_owner_back(Mesh& mesh);
  /// Somebody else answers for this mesh from now on, and what it writes is streamed to nobody. To
  /// the same owner: only the lease counts anew. Errors: refused (it is being stopped because
  /// nobody answers for it).
  Result<void> hand_over(Mesh& mesh, const ProcId& owner, std::chrono::milliseconds lease,
                         wire::OwnerLoss loss);
  void on_output_taken(Mesh& mesh, const wire::OutputTaken& taken);

  /// Ends every proc, at most `in_flight` at a time, and calls `done` when they and their
  /// descendants are gone. From now on nothing is started. A second call can only hasten the first;
  /// all get the same outcome.
  void shut_down(const StopOrder& order, std::size_t in_flight, Drain::Done done);
  UsageSampler& usage() noexcept { return usage_; }
  /// The drains that leave the host usable.
  Drains& drains() noexcept { return drains_; }

  /// Call it at the end of each turn, before what has collected is sent: starts what there is room
  /// for, talks to the keeper, reads on.
  void end_turn();
  /// Call it after that: forgets what is too old or too much.
  void forget_old(const std::function<void(Mesh&)>& on_forgotten);

 private:
  ProcEnding::Events ending_events();
  keeper::KeeperClient::Events keeper_events();
  void watch_keeper();
  void on_birth(keeper::Birth birth);
  /// Somebody whom no ledger knows.
  void on_stray(const keeper::Birth& birth);
  void take_over(const LeftMesh& left);
  void on_replayed();
  /// What its owner has taken need not be kept.
  void free_slot(Proc& proc);
  /// Of that mesh; empty: no log files.
  Result<std::string> find_log_directory(const std::string& mesh) const;
  void become_ready(Proc& proc);
  void arm_ready(const std::shared_ptr<const Assignment>& assignment);
  void on_keeper_lost();
  Result<void> check_over(const Proc& former) const;
  Proc* begin_life(Proc& former, const std::shared_ptr<const Assignment>& assignment);
  Result<std::vector<std::uint64_t>> find_fresh_ranks(const MeshSpec& spec, const Mesh* mesh) const;
  void check_ready(const Assignment& assignment);
  void fail_unready(Proc& proc, std::chrono::milliseconds limit);
  void stop_streaming(Mesh& mesh);
  void arm_lease(Mesh& mesh);
  void check_lease(const std::string& name);

  Reactor& reactor_;
  Options options_;
  Events events_;
  LineTail::Limits tail_;
  std::size_t most_procs_;
  ProcTable table_;
  OutputSpool spool_;
  /// Slots that nobody needs once the ledger says so: freed when it is written.
  std::vector<std::uint32_t> freed_slots_;
  EventBook book_;
  LedgerWriter ledger_;
  BootstrapWriter bootstraps_;
  OutputReader outputs_;
  InputWriter inputs_;
  keeper::KeeperClient keeper_;
  ProcEnding ending_;
  Spawner spawner_;
  bool keeper_writing_ = false;
  bool is_replayed_ = false;  // what the keeper knew before us is told
  std::set<Mesh*> relaying_;
  Drains drains_;
  UsageSampler usage_;
  /// Of everything, and for ever.
  std::unique_ptr<Drain> shutdown_;
  std::set<Reactor::TimerId> ready_timers_;
};

}  // namespace meshbus::host

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <zmq.hpp>

#include "agent/host/lifecycle/mesh_procs.h"
#include "agent/host/liveness/liveness_monitor.h"
#include "agent/host/output/log_streams.h"
#include "agent/host/ownership/actor_leases.h"
#include "agent/host/ownership/peer_watch.h"
#include "agent/host/replies/collections.h"
#include "agent/host/updates/publisher.h"
#include "agent/host/updates/rank_waits.h"
#include "common/bus/bus.h"
#include "common/config/config.h"
#include "common/security/token.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Starts, watches and stops the procs of one host for whoever may ask by message
/// (schemas/lifecycle.fbs, supervision.fbs, logs.fbs, bootstrap.fbs; replies.fbs, which has no part
/// in the table). Its table of handlers is that protocol. Lives on its reactor's thread. The
/// process must ignore SIGPIPE.
class HostAgent {
 public:
  struct Options {
    HostAddr host;            ///< As the broker advertises it.
    HostAddr broker;          ///< Where the broker listens for this host's own procs.
    std::string containment;  ///< For GetHost: "cgroup v2", "sweep".
    TokenMaker tokens;
    Config config;
    Environment environment;  ///< What procs inherit; see own_environment().
    UniqueFd keeper;          ///< Socket to the keeper.
    Ledger ledger = {};       ///< See MeshProcs::Options.
    OutputSpool spool = {};
    EventLog events = {};
    keeper::LimitPlaces limits = {};
  };
  struct Events {
    /// Registered with the broker; again after each loss.
    std::function<void()> on_up;
    /// The broker will not have us; final.
    std::function<void(const Error&)> on_refused;
    /// ShutdownHost is done and answered: the host may end. `ok`: every proc is gone.
    std::function<void(bool ok)> on_shutdown;
    /// The keeper died, and everybody was told: nothing can be done here any more.
    std::function<void()> on_keeper_lost;
    /// See MeshProcs::Events.
    std::function<std::string()> why_keeper_lost = {};
  };

  HostAgent(Reactor& reactor, zmq::context_t& context, Options options, Events events);
  ~HostAgent();
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  /// The host is to end, for another reason than a ShutdownHost: stops every proc, tells their
  /// owners, leaves the bus, then calls `done`. A second call only hastens.
  void stop(std::chrono::milliseconds grace, const std::string& reason, std::function<void()> done);
  /// Procs that have not ended.
  std::size_t live() { return procs_->table().live(); }
  std::uint64_t incarnation() const noexcept { return incarnation_; }

 private:
  Dispatcher make_handlers();
  void on_turn_end();
  void on_up();
  void on_undeliverable(const wire::Envelope& envelope, const Error& error);
  void on_peer_gone(const std::string& peer);

  void on_spawn_procs(const Request& request, const wire::SpawnProcs& message);
  void on_stop_procs(const Request& request, const wire::StopProcs& message);
  void on_signal_procs(const Request& request, const wire::SignalProcs& message);
  void on_write_input(const Request& request, const wire::WriteInput& message);
  void on_renew_lease(const Request& request, const wire::RenewLease& message);
  void on_hand_over(const Request& request, const wire::HandOver& message);
  void on_get_free_port(const Request& request, const wire::GetFreePort& message);
  void on_shutdown_host(const Request& request, const wire::ShutdownHost& message);
  void on_get_state(const Request& request, const wire::GetState& message);
  void on_list_meshes(const Request& request, const wire::ListMeshes& message);
  void on_stream_state(const Request& request, const wire::StreamState& message);
  void on_stop_stream(const Request& request, const wire::StopStream& message);
  void on_get_rank_status(const Request& request, const wire::GetRankStatus& message);
  void on_wait_rank_status(const Request& request, const wire::WaitRankStatus& message);
  void on_drain_host(const Request& request, const wire::DrainHost& message);
  void on_resume_host(const Request& request, const wire::ResumeHost& message);
  void on_get_host(const Request& request, const wire::GetHost& message);
  void on_proc_ready(const Request& request, const wire::ProcReady& message);
  void on_proc_heartbeat(const Request& request, const wire::ProcHeartbeat& message);
  void on_output_taken(const Request& request, const wire::OutputTaken& message);
  void on_stream_logs(const Request& request, const wire::StreamLogs& message);
  void on_log_taken(const Request& request, const wire::LogTaken& message);
  void on_stop_logs(const Request& request, const wire::StopLogs& message);
  void on_get_events(const Request& request, const wire::GetEvents& message);
  /// What keeps the sender from handing that mesh over.
  Result<void> check_may_hand_over(const wire::Envelope& envelope, const Mesh& mesh,
                                   const ProcId& owner) const;
  void refuse_spawn(const Request& request, const wire::SpawnProcs& message, const Error& error);

  /// The mesh of a request; otherwise the request is refused.
  Mesh* find_mesh(const Request& request, const flatbuffers::String* name);
  /// The live proc that sent this and says that it is `claimed`; otherwise the request is refused.
  Proc* find_sender(const Request& request, const flatbuffers::String* claimed);
  /// Who sends this, when that is who it claims to be; otherwise the request is refused.
  std::optional<ProcId> find_subscriber(const Request& request, const flatbuffers::String* claimed,
                                        std::string_view field);
  /// The ranks of a request; none = all that this host has. Otherwise the request is refused.
  std::optional<std::vector<RankBlock>> find_ranks(
      const Request& request, const flatbuffers::String* mesh,
      const flatbuffers::Vector<const wire::RankInterval*>* ranks, std::string_view field);
  /// The scope of a drain; otherwise the request is refused.
  std::optional<DrainScope> find_scope(const Request& request, const flatbuffers::String* owner,
                                       const flatbuffers::String* mesh);
  /// How many procs a request has ended at a time; otherwise it is refused.
  std::optional<std::size_t> find_in_flight(const Request& request, std::uint16_t in_flight);
  void ack(const Request& request) { bus_->answer(request, wire::AckT()); }
  /// The actors of that name in all procs here of that mesh are stopped.
  void on_actor_lease_lapsed(const std::string& mesh, const std::string& actor,
                             std::chrono::milliseconds length);
  void ask_to_stop(Proc& proc, std::chrono::milliseconds grace, const std::string& reason);
  bool is_watched_still(const ProcId& peer);

  Reactor& reactor_;
  Options options_;
  Events events_;
  std::string host_text_;
  std::uint64_t incarnation_;
  std::uint64_t turn_end_ = 0;
  std::unique_ptr<MeshProcs> procs_;
  std::unique_ptr<Bus> bus_;
  std::unique_ptr<Publisher> publisher_;
  std::unique_ptr<LogStreams> logs_;
  std::unique_ptr<PeerWatch> peers_;
  std::unique_ptr<RankWaits> waits_;
  std::unique_ptr<LivenessMonitor> signs_;
  bool was_up_ = false;
  bool keeper_lost_ = false;
  /// In this turn procs were asked for, and are about to be started.
  bool has_accepted_ = false;
  Reactor::TimerId forget_timer_ = 0;
  /// Lets a callback see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
  std::unique_ptr<Collections> collections_;
  std::unique_ptr<ActorLeases> actor_leases_;
};

}  // namespace meshbus::host

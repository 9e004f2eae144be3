#include "agent/host/host_agent.h"

#include <unistd.h>

#include "common/base/log.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

}  // namespace

HostAgent::HostAgent(Reactor& reactor, zmq::context_t& context, Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      host_text_(options_.host.to_string()),
      incarnation_(random_u64()) {
  // Before the bus adds its own hook: what is said at the end of a turn leaves at the end of that
  // turn.
  turn_end_ = reactor_.add_turn_end([this] { on_turn_end(); });

  MeshProcs::Events proc_events;
  proc_events.on_changed = [this](Mesh& mesh) {
    publisher_->mark(mesh);
    waits_->mark(mesh);
    collections_->mark(mesh);
    logs_->mark(mesh);  // its last rank may have ended long after its output
  };
  proc_events.on_owner_changed = [this](Mesh& mesh) {
    publisher_->tell_owner(mesh);
    logs_->mark(mesh);
  };
  // Who asked for procs hears of it before the first one runs: if this agent is killed then, nobody
  // waits for an answer that will not come.
  proc_events.on_written = [this] {
    if (std::exchange(has_accepted_, false)) bus_->flush_early();
  };
  proc_events.ask = [this](Proc& proc, std::chrono::milliseconds grace, const std::string& reason) {
    ask_to_stop(proc, grace, reason);
  };
  proc_events.on_keeper_lost = [this] { keeper_lost_ = true; };
  proc_events.why_keeper_lost = events_.why_keeper_lost;
  proc_events.output.flush = [this](Mesh& mesh) { logs_->flush(mesh); };
  proc_events.output.on_news = [this](Proc& proc, OutputPipe& pipe) { logs_->on_news(proc, pipe); };
  procs_ = std::make_unique<MeshProcs>(
      reactor_, std::move(options_.keeper),
      BootstrapWriter(options_.tokens, options_.broker.zmq_endpoint(), options_.config),
      MeshProcs::Options{.host = host_text_,
                         .config = options_.config,
                         .environment = std::move(options_.environment),
                         .own_pid_namespace = options_.containment == "pid namespace",
                         .address = options_.host,
                         .ledger = std::move(options_.ledger),
                         .spool = std::move(options_.spool),
                         .events = std::move(options_.events),
                         .limits = std::move(options_.limits)},
      std::move(proc_events));

  Session::Options session;
  session.endpoint = options_.broker.zmq_endpoint();
  session.hello.peer = host_service(options_.host).to_string();
  session.hello.kind = wire::PeerKind::agent;
  session.hello.incarnation = incarnation_;
  session.hello.token = options_.tokens.make(session.hello.peer, incarnation_);
  session.hello.pid = static_cast<std::uint32_t>(getpid());
  Bus::Events bus_events;
  bus_events.on_up = [this](const wire::Welcome&) { on_up(); };
  bus_events.on_down = [](const std::string& reason) {
    log::warn("the broker is away: " + reason + "; the procs of this host live on");
  };
  bus_events.on_refused = [this](const Error& error) { events_.on_refused(error); };
  bus_events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    on_undeliverable(envelope, error);
  };
  bus_events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                              Bytes body) { collections_->on_data(envelope, header, body); };
  // What comes is of those who do not want to hear of it, or is given back.
  bus_events.when_taken = [](const std::function<void()>& then) { then(); };
  bus_ = std::make_unique<Bus>(reactor_, context, std::move(session), make_handlers(),
                               std::move(bus_events));
  publisher_ = std::make_unique<Publisher>(*bus_, host_text_);
  logs_ = std::make_unique<LogStreams>(*bus_);
  peers_ =
      std::make_unique<PeerWatch>(*bus_, [this](const std::string& peer) { on_peer_gone(peer); });
  waits_ =
      std::make_unique<RankWaits>(*bus_, procs_->table(), host_text_, [this](const ProcId& asker) {
        if (!is_watched_still(asker)) peers_->remove(asker);
      });
  collections_ = std::make_unique<Collections>(
      *bus_, procs_->table(), options_.host,
      Collections::Events{.on_asker = [this](const ProcId& asker) { peers_->add(asker); },
                          .on_idle =
                              [this](const ProcId& asker) {
                                if (!is_watched_still(asker)) peers_->remove(asker);
                              }});
  actor_leases_ = std::make_unique<ActorLeases>(
      reactor_, std::bind_front(&HostAgent::on_actor_lease_lapsed, this));
  signs_ = std::make_unique<LivenessMonitor>(*bus_, procs_->table(), options_.config, host_text_,
                                             [this](Mesh& mesh) { publisher_->mark(mesh); });
  procs_->take_over();
  signs_->add_live();
  // It is told to its owners anew.
  was_up_ = !procs_->table().meshes().empty();
  for (const auto& [name, mesh] : procs_->table().meshes()) {
    if (!mesh->owner_gone) peers_->add(mesh->spec.owner);
    for (const auto& [text, subscriber] : mesh->subscribers) peers_->add(subscriber);
  }
}

HostAgent::~HostAgent() {
  reactor_.forget_turn_end(turn_end_);
  reactor_.cancel(forget_timer_);
  actor_leases_.reset();
  logs_.reset();
  procs_.reset();
}

Dispatcher HostAgent::make_handlers() {
  Dispatcher handlers;
  const auto handler = [this](auto function) { return std::bind_front(function, this); };
  handlers.on<wire::SpawnProcs>(Role::operate, handler(&HostAgent::on_spawn_procs))
      .on<wire::StopProcs>(Role::operate, handler(&HostAgent::on_stop_procs))
      .on<wire::SignalProcs>(Role::operate, handler(&HostAgent::on_signal_procs))
      .on<wire::WriteInput>(Role::operate, handler(&HostAgent::on_write_input))
      .on<wire::RenewLease>(Role::operate, handler(&HostAgent::on_renew_lease))
      .on<wire::HandOver>(Role::operate, handler(&HostAgent::on_hand_over))
      .on<wire::GetFreePort>(Role::operate, handler(&HostAgent::on_get_free_port))
      .on<wire::ShutdownHost>(Role::operate, handler(&HostAgent::on_shutdown_host))
      .on<wire::OutputTaken>(Role::operate, handler(&HostAgent::on_output_taken))
      .on<wire::StreamLogs>(Role::observe, handler(&HostAgent::on_stream_logs))
      .on<wire::LogTaken>(Role::observe, handler(&HostAgent::on_log_taken))
      .on<wire::StopLogs>(Role::observe, handler(&HostAgent::on_stop_logs))
      .on<wire::GetState>(Role::observe, handler(&HostAgent::on_get_state))
      .on<wire::ListMeshes>(Role::observe, handler(&HostAgent::on_list_meshes))
      .on<wire::StreamState>(Role::observe, handler(&HostAgent::on_stream_state))
      .on<wire::StopStream>(Role::observe, handler(&HostAgent::on_stop_stream))
      .on<wire::GetRankStatus>(Role::observe, handler(&HostAgent::on_get_rank_status))
      .on<wire::WaitRankStatus>(Role::observe, handler(&HostAgent::on_wait_rank_status))
      .on<wire::DrainHost>(Role::operate, handler(&HostAgent::on_drain_host))
      .on<wire::ResumeHost>(Role::operate, handler(&HostAgent::on_resume_host))
      .on<wire::GetEvents>(Role::observe, handler(&HostAgent::on_get_events))
      .on<wire::GetHost>(Role::observe, handler(&HostAgent::on_get_host))
      .on<wire::ProcReady>(Role::proc, handler(&HostAgent::on_proc_ready))
      .on<wire::ProcHeartbeat>(Role::proc, handler(&HostAgent::on_proc_heartbeat))
      .on<wire::Gone>(Role::broker, [this](const Request& request, const wire::Gone& gone) {
        peers_->on_gone(request.envelope.source_host(), gone);
      });
  return handlers;
}

void HostAgent::on_turn_end() {
  procs_->end_turn();
  publisher_->flush();
  waits_->flush();
  collections_->flush();
  logs_->flush();
  procs_->forget_old([this](Mesh& mesh) {
    publisher_->forget(mesh);
    logs_->forget(mesh);
    mesh.changes.clear();
  });
  if (const auto due = procs_->table().forget_due(); due && forget_timer_ == 0) {
    // The hook of that turn does the work.
    forget_timer_ = reactor_.at(*due, [this] { forget_timer_ = 0; });
  }
  if (keeper_lost_) {
    keeper_lost_ = false;
    bus_->close("the keeper of host " + host_text_ + " has died");
    reactor_.post([this, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) events_.on_keeper_lost();
    });
  }
}

void HostAgent::on_up() {
  if (was_up_) {
    peers_->on_up();
    publisher_->on_up(procs_->table().meshes());
    logs_->on_up();
  }
  was_up_ = true;
  events_.on_up();
}

void HostAgent::on_undeliverable(const wire::Envelope& envelope, const Error& error) {
  const auto receiver = envelope.destination_proc();
  if (const auto reader = logs_->on_undeliverable(receiver)) peers_->check(*reader);
  for (const auto& [name, mesh] : procs_->table().meshes()) {
    std::erase_if(mesh->subscribers, [&, &one = *mesh](const auto& entry) {
      if (entry.second.key() != receiver) return false;
      log::info("mesh " + one.name + ": subscriber " + entry.first +
                " is dropped: " + error.to_string());
      procs_->table().touch(one);
      return true;
    });
    if (mesh->owner_key != receiver || mesh->owner_gone) continue;
    publisher_->retry_owner(*mesh, envelope.lane() == wire::Lane::data);
    peers_->check(mesh->spec.owner);
  }
}

void HostAgent::on_peer_gone(const std::string& peer) {
  if (const auto reader = ProcId::parse(peer)) logs_->drop(*reader);
  waits_->drop(peer);
  collections_->drop(peer);
  for (const auto& [name, mesh] : procs_->table().meshes()) {
    if (mesh->subscribers.erase(peer) > 0) procs_->table().touch(*mesh);
    if (mesh->owner_gone || mesh->spec.owner.to_string() != peer) continue;
    procs_->on_owner_gone(*mesh);
  }
}

bool HostAgent::is_watched_still(const ProcId& peer) {
  const auto text = peer.to_string();
  for (const auto& [name, mesh] : procs_->table().meshes()) {
    if (mesh->subscribers.contains(text) || (mesh->spec.owner == peer && !mesh->owner_gone))
      return true;
  }
  return logs_->has(peer) || waits_->has(text) || collections_->has(text);
}

void HostAgent::ask_to_stop(Proc& proc, std::chrono::milliseconds grace,
                            const std::string& reason) {
  wire::StopAndExitT stop;
  stop.grace_ms = static_cast<std::uint32_t>(grace.count());
  stop.reason = reason;
  bus_->request(Destination::to(proc.address), std::move(stop),
                std::max(grace, std::chrono::milliseconds(1)),
                [this, id = proc.id](const Result<ControlMessage>& answer) {
                  if (answer) return;
                  log::debug("StopAndExit: " + answer.error().to_string());
                  procs_->skip_ask(id);
                });
}

void HostAgent::stop(std::chrono::milliseconds grace, const std::string& reason,
                     std::function<void()> done) {
  const StopOrder order{.reason = reason,
                        .requester = "host " + host_text_,
                        .grace = grace,
                        .cause = wire::Cause::host_ended};
  // All at once: whoever ends this host has waited long enough.
  procs_->shut_down(order, SIZE_MAX, [this, done = std::move(done), reason](const DrainOutcome&) {
    publisher_->flush();
    bus_->close(reason);
    done();
  });
}

}  // namespace meshbus::host

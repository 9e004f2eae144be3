#include "agent/host/procs/mesh_procs.h"

#include <string>
#include <utility>

#include "common/base/log.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

MeshProcs::MeshProcs(Reactor& reactor, UniqueFd keeper_socket, BootstrapWriter bootstraps,
                     Options options, OutputFollower& follower)
    : reactor_(reactor),
      host_(options.address.to_string()),
      why_keeper_lost_(std::move(options.why_keeper_lost)),
      table_({.kept = options.config.count(keys::records_kept),
              .age = options.config.duration(keys::records_age)}),
      spool_(std::move(options.spool)),
      slots_(spool_, table_),
      book_(std::move(options.events)),
      progress_(std::move(options.progress)),
      ledger_(std::move(options.ledger), table_),
      outputs_(reactor, spool_, slots_, follower,
               {.size = options.config.bytes(keys::logs_size),
                .files = options.config.count(keys::logs_files)}),
      inputs_(reactor,
              [this](Proc& proc) {
                keeper_.close_input({proc.id});
                table_.touch(proc);
              }),
      keeper_(std::move(keeper_socket), keeper_events()),
      ending_(reactor, keeper_, table_, outputs_, inputs_, *this,
              MemoryKills::of_host(options.limits.v2_path()), ErrorFiles(progress_.folder())),
      drains_(reactor, table_, ending_, host_),
      launches_(reactor, table_, keeper_, ending_, outputs_, inputs_,
                {.host = host_, .own_pid_namespace = options.own_pid_namespace}),
      spawns_({.reactor = reactor,
               .table = table_,
               .keeper = keeper_,
               .ending = ending_,
               .outputs = outputs_,
               .slots = slots_,
               .ledger = ledger_,
               .drains = drains_,
               .launches = launches_,
               .progress = progress_},
              std::move(bootstraps),
              {.host = host_,
               .config = options.config,
               .environment = std::move(options.environment),
               .limits = std::move(options.limits)}),
      owners_(reactor, table_, ending_, outputs_, book_, host_),
      recovery_({.reactor = reactor,
                 .table = table_,
                 .ending = ending_,
                 .outputs = outputs_,
                 .events = book_,
                 .drains = drains_,
                 .owners = owners_,
                 .launches = launches_,
                 .spawns = spawns_},
                options.address),
      usage_(reactor, table_, progress_, options.config.duration(keys::usage_period)) {
  watch_keeper();
}

MeshProcs::~MeshProcs() {
  if (!keeper_.lost()) reactor_.forget(keeper_.fd());
  for (const auto& [name, mesh] : table_.meshes()) {
    for (const auto& [rank, proc] : mesh->procs) {
      reactor_.cancel(proc->stop.timer);
      reactor_.cancel(proc->exit.output_timer);
      proc->input.done = nullptr;
      inputs_.close(*proc);
      outputs_.close(*proc);
    }
  }
}

keeper::KeeperClient::Events MeshProcs::keeper_events() {
  keeper::KeeperClient::Events events;
  events.on_birth = [this](keeper::Birth birth) {
    if (SideProcesses::is_one(birth.id)) return sides_.on_birth(std::move(birth));
    spawns_.on_birth(birth.id);
    launches_.on_birth(std::move(birth));
  };
  events.on_exit = [this](const keeper::Exit& exit) {
    SideProcesses::is_one(exit.id) ? sides_.on_exit(exit) : ending_.on_exit(exit);
  };
  events.on_gone = [this](const keeper::Gone& gone) {
    SideProcesses::is_one(gone.id) ? sides_.on_gone(gone) : ending_.on_gone(gone);
  };
  events.on_replayed = [this] { recovery_.on_replayed(); };
  events.on_lost = [this] { on_keeper_lost(); };
  return events;
}

void MeshProcs::watch_keeper() {
  is_keeper_writing_ = keeper_.wants_write();
  reactor_.watch(keeper_.fd(), EPOLLIN | (is_keeper_writing_ ? EPOLLOUT : 0U),
                 [this](std::uint32_t) { keeper_.on_ready(); });
}

Result<void> MeshProcs::check_start() const {
  if (shutdown_)
    return fail(ErrorCode::refused,
                "host " + host_ + " is shutting down; nothing is started here any more");
  if (keeper_.lost())
    return fail(ErrorCode::refused, "host " + host_ + " has lost its keeper and is about to end");
  return {};
}

Result<SpawnService::Spawned> MeshProcs::restart(Mesh& mesh, const std::vector<RankBlock>& ranks,
                                                 std::uint32_t restarts) {
  if (auto fine = check_start(); !fine) return fail(fine.error());
  return spawns_.restart(mesh, ranks, restarts);
}

Result<SpawnService::Spawned> MeshProcs::spawn(MeshSpec spec, std::string entry,
                                               const topology::Topology* topology) {
  if (auto fine = check_start(); !fine) return fail(fine.error());
  const std::string name = spec.mesh.to_string();
  const auto lease = spec.lease;
  Mesh* const known = table_.find_mesh(name);
  auto started = spawns_.spawn(std::move(spec), std::move(entry), topology);
  if (known == nullptr) {
    if (const Mesh* added = table_.find_mesh(name)) owners_.arm(*added);
  } else if (started && lease.count() > 0) {
    owners_.renew_lease(*known, lease);
  }
  return started;
}

void MeshProcs::shut_down(const StopOrder& order, std::size_t in_flight, Drain::Done done) {
  if (shutdown_) return shutdown_->join(order, in_flight, std::move(done));
  book_.add(wire::EventKind::host_stopping, {}, order.requester,
            order.reason + ": " + std::to_string(table_.live()) + " live procs are stopped");
  shutdown_ = std::make_unique<Drain>(reactor_, table_, ending_, DrainScope(), order, in_flight,
                                      std::move(done));
  shutdown_->pump();
}

void MeshProcs::advance() {
  if (shutdown_) shutdown_->pump();
  drains_.pump();
  if (recovery_.is_replayed()) spawns_.pump();
}

void MeshProcs::write_down() {
  if (auto drains = drains_.take_changed()) ledger_.set_drains(std::move(*drains));
  // First the events: an end that is in the ledger is not added to the event log again.
  book_.write();
  ledger_.write();
  slots_.free_released();
}

void MeshProcs::send_orders() {
  if (keeper_.has_orders()) talk_to_keeper();
}

void MeshProcs::talk_to_keeper() {
  if (keeper_.lost()) return;
  keeper_.flush();
  if (keeper_.wants_write() != is_keeper_writing_) watch_keeper();
}

void MeshProcs::resume_outputs() {
  for (Mesh* mesh : outputs_.resume()) table_.mark_changed(*mesh);
}

void MeshProcs::forget_old(const std::function<void(Mesh&)>& on_forgotten) {
  table_.forget_old(reactor_.now(), [&](Mesh& mesh) {
    owners_.forget(mesh);
    outputs_.forget(mesh);
    on_forgotten(mesh);
  });
}

void MeshProcs::on_ended(const Proc& proc, bool ok) {
  drains_.on_ended(proc, ok);
  if (shutdown_) shutdown_->on_ended(proc, ok);
}

void MeshProcs::on_empty(const Proc& proc) {
  drains_.on_empty(proc);
  if (shutdown_) shutdown_->on_empty(proc);
}

void MeshProcs::on_reported(Proc& proc) {
  book_.add_end(proc);
  progress_.remove(proc);
  slots_.release_if_done(proc);
}

void MeshProcs::on_keeper_lost() {
  reactor_.forget(keeper_.fd());
  log::error("the keeper is gone: every proc of this host counts as failed");
  const KeeperLoss loss = why_keeper_lost_ ? why_keeper_lost_() : KeeperLoss();
  const auto cause = loss.why == KeeperLoss::Why::frozen        ? wire::Cause::frozen
                     : loss.why == KeeperLoss::Why::warden_died ? wire::Cause::host_lost
                                                                : wire::Cause::keeper_lost;
  std::string text;
  if (loss.why == KeeperLoss::Why::warden_died) {
    const std::string where = loss.detail.empty() ? "" : " (in " + loss.detail + ")";
    text = "host lost: " + host_ + ": its warden, the process meshbus host" + where +
           ", has died, and all that the host ran with it";
  } else {
    text = "keeper lost: the process that held the procs of host " + host_ + " has died";
    if (!loss.detail.empty()) text += ": " + loss.detail;
  }
  for (Proc* proc : table_.live_procs()) {
    outputs_.read_rest(*proc);
    proc->exit.set_empty();
    ending_.fail(
        *proc,
        {.code = wire::ErrorCode::internal, .text = text, .cause = cause, .consequence = true});
  }
}

}  // namespace meshbus::host

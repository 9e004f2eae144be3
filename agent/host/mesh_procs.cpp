#include "agent/host/mesh_procs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "agent/host/certificate.h"
#include "common/log.h"
#include "common/token.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

/// From the exit of a process to its certificate, at most (spec 4.9).
constexpr auto kDrainLimit = 100ms;
/// What a shutdown waits for descendants after the last proc has ended.
constexpr auto kLingerLimit = 2s;
constexpr auto kOwnerGoneGrace = 1s;

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

std::string name_of(const Proc& proc) {
  return "rank " + std::to_string(proc.rank()) + " of " + proc.mesh.name;
}

keeper::KeeperClient::Events keeper_events(auto on_birth, auto on_exit, auto on_gone, auto on_lost) {
  return {.on_birth = std::move(on_birth), .on_exit = std::move(on_exit), .on_gone = std::move(on_gone), .on_lost = std::move(on_lost)};
}

}  // namespace

MeshProcs::MeshProcs(Reactor& reactor, UniqueFd keeper_socket, BootstrapWriter bootstraps, Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      tail_{.lines = options_.config.count(keys::tail_lines)},
      table_({.kept = options_.config.count(keys::records_kept), .age = options_.config.duration(keys::records_age)}),
      bootstraps_(std::move(bootstraps)),
      outputs_(reactor),
      inputs_(reactor),
      keeper_(std::move(keeper_socket), keeper_events([this](keeper::Birth birth) { on_birth(std::move(birth)); },
                                                      [this](const keeper::Exit& exit) { on_exit(exit); },
                                                      [this](const keeper::Gone& gone) { on_gone(gone); }, [this] { on_lost(); })),
      spawner_(table_, keeper_, bootstraps_, options_.config.count(keys::spawn_in_flight), options_.config.flag(keys::parent_death_signal),
               [this](Proc& proc, const Error& error) { on_spawn_failed(proc, error); }) {
  watch_keeper();
}

MeshProcs::~MeshProcs() {
  if (!keeper_.lost()) reactor_.forget(keeper_.fd());
  if (shutdown_) reactor_.cancel(shutdown_->timer);
  for (const auto& [name, mesh] : table_.meshes()) {
    reactor_.cancel(mesh->lease_timer);
    for (const auto& [rank, proc] : mesh->procs) {
      reactor_.cancel(proc->termination_timer);
      reactor_.cancel(proc->drain_timer);
      proc->input.done = nullptr;
      inputs_.close(*proc);
      outputs_.close(*proc);
    }
  }
}

void MeshProcs::watch_keeper() {
  keeper_writing_ = keeper_.wants_write();
  reactor_.watch(keeper_.fd(), EPOLLIN | (keeper_writing_ ? EPOLLOUT : 0U), [this](std::uint32_t) { keeper_.on_ready(); });
}

void MeshProcs::end_turn() {
  spawner_.pump();
  if (shutdown_) pump_shutdown();
  if (!keeper_.lost()) {
    keeper_.flush();
    if (keeper_.wants_write() != keeper_writing_) watch_keeper();
  }
  for (Mesh* mesh : reading_) {
    outputs_.resume(*mesh);
    if (mesh->relay.has_items()) events_.on_changed(*mesh);
  }
}

// Starting
// ------------------------------------------------------------------------------------------------------------------------------------

void MeshProcs::forget_old(const std::function<void(Mesh&)>& on_forgotten) {
  table_.forget_old(reactor_.now(), [&](Mesh& mesh) {
    reactor_.cancel(mesh.lease_timer);
    reading_.erase(&mesh);
    on_forgotten(mesh);
  });
}

Result<std::uint64_t> MeshProcs::spawn(MeshSpec spec) {
  const std::string name = spec.mesh.to_string();
  if (shutdown_) return fail(ErrorCode::refused, "host " + options_.host + " is shutting down; nothing is started here any more");
  if (keeper_.lost()) return fail(ErrorCode::refused, "host " + options_.host + " has lost its keeper and is about to end");
  Mesh* mesh = table_.find_mesh(name);
  if (mesh != nullptr) {
    if (const auto field = find_difference(mesh->spec, spec))
      return fail(ErrorCode::refused, "mesh " + name + " exists with another " + std::string(*field) + "; use another name, or the same " +
                                          std::string(*field));
    if (mesh->owner_gone) return fail(ErrorCode::refused, "mesh " + name + " is being stopped: its owner is gone");
  }
  std::vector<std::uint64_t> fresh;
  for (const RankBlock& block : spec.create_ranks) {
    for (std::uint64_t rank = block.begin; rank < block.end; ++rank) {
      if (mesh != nullptr && mesh->procs.contains(rank)) {
        if (mesh->procs.at(rank)->host_index != spec.host_index)
          return fail(ErrorCode::refused, "rank " + std::to_string(rank) + " of " + name + " exists with another host_index");
      } else {
        fresh.push_back(rank);
      }
    }
  }
  if (fresh.empty()) return 0;
  if (table_.live() + fresh.size() > max_ranks_per_host)
    return fail(ErrorCode::too_large, "host " + options_.host + " has " + std::to_string(table_.live()) + " procs; " +
                                          std::to_string(fresh.size()) + " more would pass the limit of " +
                                          std::to_string(max_ranks_per_host));

  const auto assignment = std::make_shared<const Assignment>(Assignment{spec, shared_environment(spec, options_.environment)});
  const auto ready_limit = spec.ready_limit;
  if (mesh == nullptr) {
    mesh = &table_.add_mesh(std::move(spec), reactor_.now());
    mesh->relaying = mesh->spec.output == wire::OutputMode::stream;
    if (mesh->relaying) reading_.insert(mesh);
    arm_lease(*mesh);
  } else if (spec.lease.count() > 0) {
    renew_lease(*mesh, spec.lease);
  }
  for (const auto rank : fresh) {
    Proc* proc = table_.add_proc(*mesh, assignment, rank, random_u64(), tail_);
    if (proc == nullptr)
      return fail(ErrorCode::refused,
                  "rank " + std::to_string(rank) + " of " + name + " has the same address key as another proc here; use another name");
    publish(*proc);
    spawner_.add(*proc);
  }
  if (ready_limit.count() > 0) {
    // A name, not a pointer: the mesh may be forgotten before.
    reactor_.after(ready_limit, [this, assignment] { check_ready(assignment); });
  }
  return fresh.size();
}

void MeshProcs::on_birth(keeper::Birth birth) {
  spawner_.on_birth();
  Proc* proc = table_.find_id(birth.id);
  if (proc == nullptr) return log::error("keeper: a birth of proc " + std::to_string(birth.id) + ", which nobody asked for");
  proc->assignment.reset();
  if (birth.failure) {
    proc->progress = SpawnProgress::none;
    if (proc->has_ended()) return;
    if (birth.failure->stage == keeper::SpawnStage::cancelled && !proc->failure && proc->state.is_stop_asked()) {
      proc->state.on_cancelled(now_ns());
    } else {
      if (!proc->failure) {
        proc->failure = Failure{wire::ErrorCode::exec_failed, birth.failure->error,
                                describe_spawn_failure(*birth.failure, proc->mesh.spec.command.program, options_.host)};
      }
      proc->state.on_failed(now_ns());
    }
    return after_end(*proc);
  }
  proc->progress = SpawnProgress::born;
  // Given up meanwhile, and yet it was born: it must not stay.
  if (proc->has_ended()) return send_signal(*proc, SIGKILL);
  outputs_.attach(*proc, std::move(birth.stdout_pipe), std::move(birth.stderr_pipe));
  inputs_.attach(*proc, std::move(birth.stdin_pipe));
  proc->state.on_started(static_cast<std::uint32_t>(birth.pid), birth.started_realtime_ns);
  publish(*proc);
  if (proc->termination) {
    if (!proc->failure && proc->state.on_stop(proc->termination->step())) publish(*proc);
  } else if (proc->mesh.spec.kind == wire::ProcKind::plain || proc->said_ready) {
    proc->state.on_ready();
    publish(*proc);
  }
  for (int signal = 1; proc->held_signals != 0 && signal < 64; ++signal) {
    if ((proc->held_signals >> signal & 1) != 0) send_signal(*proc, signal);
  }
  proc->held_signals = 0;
}

void MeshProcs::on_spawn_failed(Proc& proc, const Error& error) {
  proc.progress = SpawnProgress::none;
  proc.failure =
      Failure{wire::ErrorCode::exec_failed, 0,
              "cannot start '" + proc.mesh.spec.command.program + "': " + error.detail() + " (step: request) on host " + options_.host};
  proc.assignment.reset();
  if (proc.state.on_failed(now_ns())) after_end(proc);
}

void MeshProcs::on_ready(Proc& proc) {
  if (proc.said_ready) return;
  proc.said_ready = true;
  if (proc.progress == SpawnProgress::born && !proc.termination && proc.state.on_ready()) publish(proc);
}

void MeshProcs::check_ready(const std::shared_ptr<const Assignment>& assignment) {
  Mesh* mesh = table_.find_mesh(assignment->spec.mesh.to_string());
  if (mesh == nullptr) return;
  for (const RankBlock& block : assignment->spec.create_ranks) {
    for (auto entry = mesh->procs.lower_bound(block.begin); entry != mesh->procs.end() && entry->first < block.end; ++entry) {
      Proc& proc = *entry->second;
      // A stop that is under way is bounded by itself; another request may have brought the rank.
      if (proc.state.state() < wire::ProcState::ready && !proc.termination) fail_unready(proc, assignment->spec.ready_limit);
    }
  }
}

void MeshProcs::fail_unready(Proc& proc, std::chrono::milliseconds limit) {
  const auto stage = [&]() -> std::string {
    switch (proc.progress) {
      case SpawnProgress::queued: return "queued, waits for its turn to be started";
      case SpawnProgress::asked: return "spawned, not yet exec'd";
      case SpawnProgress::born:
      case SpawnProgress::none: break;
    }
    return "exec'd, no hello from it yet";
  };
  proc.failure = Failure{wire::ErrorCode::timeout, 0, "not ready within " + std::to_string(limit.count()) + " ms; stage: " + stage()};
  if (proc.progress == SpawnProgress::queued) {
    proc.progress = SpawnProgress::none;
    proc.assignment.reset();
    proc.state.on_failed(now_ns());
    return after_end(proc);
  }
  begin_termination(proc, 0ms, false);
}

// Ending
// --------------------------------------------------------------------------------------------------------------------------------------

void MeshProcs::stop(Mesh& mesh, const StopOrder& order) {
  for (const auto& [rank, proc] : mesh.procs) stop(*proc, order);
}

void MeshProcs::stop(Proc& proc, const StopOrder& order) {
  if (proc.has_ended()) return;
  if (proc.termination) {
    proc.termination->shorten(reactor_.now(), order.grace);
    return run_termination(proc);
  }
  proc.stopped_by = order.requester;
  proc.stop_reason = order.reason;
  if (proc.progress == SpawnProgress::queued) {
    proc.progress = SpawnProgress::none;
    proc.assignment.reset();
    proc.state.on_stop(wire::StopStep::asked);
    proc.state.on_cancelled(now_ns());
    return after_end(proc);
  }
  const bool can_ask = proc.mesh.spec.kind == wire::ProcKind::mesh && proc.state.state() == wire::ProcState::ready;
  begin_termination(proc, order.grace, can_ask);
}

void MeshProcs::begin_termination(Proc& proc, std::chrono::milliseconds grace, bool can_ask) {
  proc.termination.emplace(reactor_.now(), grace, can_ask);
  run_termination(proc);
}

void MeshProcs::run_termination(Proc& proc) {
  using Action = Termination::Action;
  Termination& termination = *proc.termination;
  reactor_.cancel(proc.termination_timer);
  proc.termination_timer = 0;
  for (auto action = termination.next(reactor_.now()); action != Action::none; action = termination.next(reactor_.now())) {
    const auto generation = proc.state.to_wire().generation();
    if (action != Action::give_up && !proc.failure) proc.state.on_stop(termination.step());
    if (proc.state.to_wire().generation() != generation) publish(proc);
    switch (action) {
      case Action::ask: {
        const auto left = std::max<Reactor::Duration>(termination.due() - reactor_.now(), 0ms);
        events_.ask(proc, std::chrono::duration_cast<std::chrono::milliseconds>(left), proc.stop_reason);
        break;
      }
      case Action::term:
        send_signal(proc, SIGTERM);
        // A stopped process would not see it.
        if (proc.progress == SpawnProgress::born) send_signal(proc, SIGCONT);
        break;
      case Action::kill: send_signal(proc, SIGKILL); break;
      case Action::give_up:
        if (!proc.failure) proc.failure = Failure{};
        proc.failure->text += (proc.failure->text.empty() ? "" : "; ") + std::string("did not end within ") +
                              std::to_string(Termination::kill_limit.count()) + " ms after SIGKILL (process " +
                              std::to_string(proc.state.to_wire().pid()) + ", perhaps in uninterruptible sleep)";
        log::error(name_of(proc) + ": " + proc.failure->text);
        proc.state.on_failed(now_ns());
        return after_end(proc);
      case Action::none: break;
    }
  }
  proc.termination_timer = reactor_.at(termination.due(), [this, id = proc.id] {
    Proc* waiting = table_.find_id(id);
    if (waiting != nullptr && !waiting->has_ended()) run_termination(*waiting);
  });
}

void MeshProcs::skip_ask(std::uint64_t id) {
  Proc* proc = table_.find_id(id);
  if (proc == nullptr || proc->has_ended() || !proc->termination) return;
  proc->termination->skip_ask(reactor_.now());
  run_termination(*proc);
}

void MeshProcs::send_signal(Proc& proc, int signal) {
  if (signal > 0 && signal < 64) proc.sent_signals |= std::uint64_t{1} << signal;
  if (auto sent = keeper_.signal({.id = proc.id, .signal = signal, .group = true}); !sent)
    log::warn(name_of(proc) + ": " + signal_name(signal) + ": " + sent.error().to_string());
}

void MeshProcs::signal(Proc& proc, int signal) {
  if (proc.has_ended()) return;
  if (proc.progress == SpawnProgress::born) {
    send_signal(proc, signal);
  } else if (signal < 64) {
    proc.held_signals |= std::uint64_t{1} << signal;
  }
}

void MeshProcs::on_exit(const keeper::Exit& exit) {
  Proc* proc = table_.find_id(exit.id);
  if (proc == nullptr) return;
  proc->usage = exit;
  outputs_.drain(*proc);
  if (proc->has_ended()) return;  // given up before
  proc->end = ProcEnd{.signaled = exit.signaled, .code = exit.code, .core_dumped = exit.core_dumped, .ended_ns = exit.ended_realtime_ns};
  if (proc->failure) {
    proc->state.on_failed(exit.ended_realtime_ns);
  } else {
    proc->state.on_ended(*proc->end);
  }
  after_end(*proc);
}

void MeshProcs::on_gone(const keeper::Gone& gone) {
  Proc* proc = table_.find_id(gone.id);
  if (proc == nullptr) return;
  proc->gone = true;
  outputs_.finish(*proc);
  if (proc->output_ended && proc->has_ended()) finish_output(*proc);
  if (shutdown_) shutdown_->lingering.erase(proc->id);
}

void MeshProcs::after_end(Proc& proc) {
  publish(proc);
  reactor_.cancel(proc.termination_timer);
  proc.termination_timer = 0;
  table_.on_ended(proc);
  inputs_.close(proc);
  const bool given_up = proc.progress == SpawnProgress::born && !proc.end;
  if (shutdown_) {
    shutdown_->queue.on_ended(proc.id, !given_up);
    if (proc.end && !proc.gone) shutdown_->lingering.insert(proc.id);
  }
  if (proc.progress != SpawnProgress::born || given_up || proc.gone) return finish_output(proc);
  proc.drain_timer = reactor_.after(kDrainLimit, [this, id = proc.id] {
    Proc* waiting = table_.find_id(id);
    if (waiting == nullptr) return;
    outputs_.drain(*waiting);
    finish_output(*waiting);
  });
}

void MeshProcs::finish_output(Proc& proc) {
  reactor_.cancel(proc.drain_timer);
  proc.drain_timer = 0;
  outputs_.close(proc);
  certify(proc);
}

void MeshProcs::certify(Proc& proc) {
  if (std::exchange(proc.certified, true)) return;
  auto certificate = std::make_unique<wire::CertificateT>();
  certificate->rank = proc.rank();
  if (proc.failure) {
    certificate->reason = proc.failure->text;
    certificate->code = proc.failure->code;
    certificate->os_error = proc.failure->os_error;
  } else if (proc.end) {
    certificate->reason = describe_end(*proc.end, proc.sent_signals);
  } else {
    certificate->reason = "stopped before it was started";
  }
  certificate->stderr_tail = to_vector(proc.err.tail.text());
  certificate->stopped_by = proc.stopped_by;
  certificate->stop_reason = proc.stop_reason;
  certificate->max_rss_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(proc.usage.max_rss_kib, 0)) * 1024;
  certificate->user_us = static_cast<std::uint64_t>(std::max<std::int64_t>(proc.usage.user_us, 0));
  certificate->system_us = static_cast<std::uint64_t>(std::max<std::int64_t>(proc.usage.system_us, 0));
  proc.mesh.certificates.push_back(std::make_unique<wire::CertificateT>(*certificate));
  proc.certificate = std::move(certificate);
  proc.out.tail = proc.err.tail = LineTail(tail_);
  table_.remember(proc, reactor_.now());
  events_.on_changed(proc.mesh);
}

void MeshProcs::publish(Proc& proc) {
  proc.mesh.changes.push_back(proc.state.to_wire());
  events_.on_changed(proc.mesh);
}

void MeshProcs::on_lost() {
  reactor_.forget(keeper_.fd());
  log::error("the keeper is gone: every proc of this host counts as failed");
  for (Proc* proc : table_.live_procs()) {
    proc->failure =
        Failure{wire::ErrorCode::internal, 0, "keeper lost: the process that held the procs of host " + options_.host + " has died"};
    outputs_.drain(*proc);
    proc->state.on_failed(now_ns());
    proc->gone = true;
    after_end(*proc);
  }
  events_.on_keeper_lost();
}

// Leases, owners, shutdown
// --------------------------------------------------------------------------------------------------------------------

void MeshProcs::arm_lease(Mesh& mesh) {
  reactor_.cancel(mesh.lease_timer);
  mesh.lease_timer = 0;
  if (const auto due = mesh.lease.due()) mesh.lease_timer = reactor_.at(*due, [this, name = mesh.name] { check_lease(name); });
}

void MeshProcs::renew_lease(Mesh& mesh, std::chrono::milliseconds length) {
  mesh.lease.renew(reactor_.now(), length);
  arm_lease(mesh);
}

void MeshProcs::check_lease(const std::string& name) {
  Mesh* mesh = table_.find_mesh(name);
  if (mesh == nullptr || mesh->live == 0) return;
  if (!mesh->lease.has_lapsed(reactor_.now())) return arm_lease(*mesh);
  const auto length = mesh->lease.length().count();
  log::warn("mesh " + name + ": its lease of " + std::to_string(length) + " ms was not renewed; it is stopped");
  stop(*mesh, {.reason = "lease lapsed", .requester = "host agent of " + options_.host, .grace = mesh->spec.grace});
}

void MeshProcs::on_owner_gone(Mesh& mesh) {
  mesh.owner_gone = true;
  outputs_.stop_relaying(mesh);
  reading_.erase(&mesh);
  stop(mesh, {.reason = "launcher gone",
              .requester = "host agent of " + options_.host,
              .grace = std::min<std::chrono::milliseconds>(mesh.spec.grace, kOwnerGoneGrace)});
}

void MeshProcs::on_output_taken(Mesh& mesh, std::uint64_t bytes) {
  mesh.relay.taken(bytes);
}

void MeshProcs::shut_down(const StopOrder& order, std::size_t in_flight, std::function<void(const ShutdownOutcome&)> done) {
  if (shutdown_) {
    if (shutdown_->outcome) return done(*shutdown_->outcome);
    shutdown_->waiting.push_back(std::move(done));
    shutdown_->order.grace = std::min(shutdown_->order.grace, order.grace);
    for (Proc* proc : table_.live_procs()) {
      if (proc->termination) stop(*proc, order);
    }
    return;
  }
  std::vector<std::uint64_t> ids;
  for (const Proc* proc : table_.live_procs()) ids.push_back(proc->id);
  shutdown_ = std::make_unique<Shutdown>(
      Shutdown{.order = order, .queue = ShutdownQueue(ids, in_flight), .lingering = {}, .outcome = {}, .waiting = {}});
  shutdown_->waiting.push_back(std::move(done));
  // Those that still wait for their start cost nothing to end; and none of them shall be born meanwhile.
  for (Proc* proc : table_.live_procs()) {
    if (proc->progress == SpawnProgress::queued) stop(*proc, order);
  }
  for (const auto& [name, mesh] : table_.meshes()) {
    for (const auto& [rank, proc] : mesh->procs) {
      if (proc->end && !proc->gone) shutdown_->lingering.insert(proc->id);
    }
  }
  pump_shutdown();
}

void MeshProcs::pump_shutdown() {
  if (shutdown_->outcome) return;
  while (const auto id = shutdown_->queue.next()) {
    if (Proc* proc = table_.find_id(*id)) stop(*proc, shutdown_->order);
  }
  if (!shutdown_->queue.is_done()) return;
  if (shutdown_->lingering.empty()) return finish_shutdown();
  if (shutdown_->timer == 0) shutdown_->timer = reactor_.after(kLingerLimit, [this] { finish_shutdown(); });
}

void MeshProcs::finish_shutdown() {
  if (shutdown_->outcome) return;
  reactor_.cancel(shutdown_->timer);
  ShutdownOutcome outcome{.attempted = shutdown_->queue.attempted(), .failed = shutdown_->queue.failed(), .detail = {}};
  if (outcome.failed > 0) outcome.detail = std::to_string(outcome.failed) + " procs did not end by SIGKILL";
  if (!shutdown_->lingering.empty())
    outcome.detail += (outcome.detail.empty() ? "" : "; ") + std::string("descendants of ") + std::to_string(shutdown_->lingering.size()) +
                      " procs are still there";
  shutdown_->outcome = outcome;
  for (const auto& done : std::exchange(shutdown_->waiting, {})) done(outcome);
}

}  // namespace meshbus::host

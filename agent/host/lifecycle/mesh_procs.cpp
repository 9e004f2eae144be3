#include "agent/host/lifecycle/mesh_procs.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "agent/host/model/exit_report.h"
#include "agent/host/model/real_time.h"
#include "agent/os/process_table.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "common/wire/control.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

/// Each proc takes up to three pipes, more while it is born, and a descriptor that does not fit any
/// more would cost us the connection to the keeper, and with it all procs.
std::size_t find_most_procs() {
  constexpr rlim_t kOthers = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_ranks_per_host;
  const rlim_t free = limit.rlim_cur - std::min(limit.rlim_cur, kOthers);
  return static_cast<std::size_t>(std::clamp<rlim_t>(free / 3, 100, max_ranks_per_host));
}

/// Whether it is the command that cannot be executed, or this host that cannot start anything
/// (spec 12.2 tells them apart).
bool is_about_the_file(keeper::SpawnStage stage) {
  return stage == keeper::SpawnStage::lookup || stage == keeper::SpawnStage::exec ||
         stage == keeper::SpawnStage::interpreter;
}

/// Alive, and kept from running by SIGSTOP or a debugger.
bool is_stopped(const Proc& proc) {
  const auto pid = static_cast<pid_t>(proc.state.to_wire().pid());
  const auto process = pid > 0 ? keeper::read_process(pid) : std::nullopt;
  return process && (process->state == 'T' || process->state == 't');
}

/// The number of a process as this one sees it; 0 when it is gone.
pid_t pid_of(const UniqueFd& pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  pid_t pid = 0;
  for (std::string word; info >> word;) {
    if (word == "Pid:" && info >> pid) break;
  }
  return std::max(pid, 0);
}

}  // namespace

MeshProcs::MeshProcs(Reactor& reactor, UniqueFd keeper_socket, BootstrapWriter bootstraps,
                     Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      tail_{.lines = options_.config.count(keys::tail_lines)},
      most_procs_(find_most_procs()),
      table_({.kept = options_.config.count(keys::records_kept),
              .age = options_.config.duration(keys::records_age)}),
      spool_(std::move(options_.spool)),
      book_(std::move(options_.events)),
      ledger_(std::move(options_.ledger), table_),
      bootstraps_(std::move(bootstraps)),
      outputs_(reactor, spool_, std::move(events_.output),
               {.size = options_.config.bytes(keys::logs_size),
                .files = options_.config.count(keys::logs_files)}),
      inputs_(reactor,
              [this](Proc& proc) {
                keeper_.close_input({proc.id});
                table_.touch(proc);
              }),
      keeper_(std::move(keeper_socket), keeper_events()),
      ending_(reactor, keeper_, table_, outputs_, inputs_, ending_events(),
              MemoryKills::of_host(options_.limits.v2_path())),
      spawner_(table_, keeper_, bootstraps_, options_.config.count(keys::spawn_in_flight),
               options_.config.flag(keys::parent_death_signal),
               [this](Proc& proc, const Error& error) {
                 ending_.fail(proc, {.code = meshbus::to_wire(error.code()),
                                     .text = "cannot start '" + proc.mesh.spec.command.program +
                                             "': " + error.detail() + " (step: request) on host " +
                                             options_.host,
                                     .cause = wire::Cause::spawn_failed});
               }),
      drains_(reactor, table_, ending_, options_.host),
      usage_(reactor, table_, options_.config.duration(keys::usage_period)) {
  watch_keeper();
}

MeshProcs::~MeshProcs() {
  if (!keeper_.lost()) reactor_.forget(keeper_.fd());
  for (const auto timer : ready_timers_) reactor_.cancel(timer);
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

ProcEnding::Events MeshProcs::ending_events() {
  ProcEnding::Events events;
  events.on_changed = [this](Mesh& mesh) { events_.on_changed(mesh); };
  events.ask = [this](Proc& proc, std::chrono::milliseconds grace, const std::string& reason) {
    events_.ask(proc, grace, reason);
  };
  events.on_ended = [this](Proc& proc, bool ok) {
    drains_.on_ended(proc, ok);
    if (shutdown_) shutdown_->on_ended(proc, ok);
  };
  events.on_gone = [this](Proc& proc) {
    drains_.on_gone(proc);
    if (shutdown_) shutdown_->on_gone(proc);
  };
  events.on_exit_report = [this](Proc& proc) {
    book_.add_end(proc);
    free_slot(proc);
  };
  return events;
}

keeper::KeeperClient::Events MeshProcs::keeper_events() {
  keeper::KeeperClient::Events events;
  events.on_birth = [this](keeper::Birth birth) { on_birth(std::move(birth)); };
  events.on_exit = [this](const keeper::Exit& exit) { ending_.on_exit(exit); };
  events.on_gone = [this](const keeper::Gone& gone) { ending_.on_gone(gone); };
  events.on_replayed = [this] { on_replayed(); };
  events.on_lost = [this] { on_keeper_lost(); };
  return events;
}

void MeshProcs::watch_keeper() {
  keeper_writing_ = keeper_.wants_write();
  reactor_.watch(keeper_.fd(), EPOLLIN | (keeper_writing_ ? EPOLLOUT : 0U),
                 [this](std::uint32_t) { keeper_.on_ready(); });
}

void MeshProcs::end_turn() {
  if (shutdown_) shutdown_->pump();
  drains_.pump();
  if (is_replayed_) spawner_.pump();
  if (auto drains = drains_.take_changed()) ledger_.set_drains(std::move(*drains));
  // Before anybody hears of it. First the events: what is in the ledger is not told again.
  book_.write();
  ledger_.write();
  // Only now: an agent that takes over believes the ledger, and would find the output of its procs
  // gone.
  for (const auto slot : std::exchange(freed_slots_, {})) spool_.free_slot(slot);
  events_.on_written();
  if (!keeper_.lost()) {
    keeper_.flush();
    if (keeper_.wants_write() != keeper_writing_) watch_keeper();
  }
  for (Mesh* mesh : relaying_) {
    outputs_.resume(*mesh);
    if (mesh->relay.has_items()) events_.on_changed(*mesh);
  }
}

void MeshProcs::forget_old(const std::function<void(Mesh&)>& on_forgotten) {
  table_.forget_old(reactor_.now(), [&](Mesh& mesh) {
    reactor_.cancel(mesh.lease_timer);
    relaying_.erase(&mesh);
    for (const auto& [rank, proc] : mesh.procs)
      freed_slots_.push_back(std::exchange(proc->slot, 0));
    on_forgotten(mesh);
  });
}

Result<std::uint64_t> MeshProcs::spawn(MeshSpec spec, std::string entry) {
  const std::string name = spec.mesh.to_string();
  if (shutdown_)
    return fail(ErrorCode::refused,
                "host " + options_.host + " is shutting down; nothing is started here any more");
  if (keeper_.lost())
    return fail(ErrorCode::refused,
                "host " + options_.host + " has lost its keeper and is about to end");
  Mesh* mesh = table_.find_mesh(name);
  if (mesh != nullptr) {
    if (const auto field = find_difference(mesh->spec, spec))
      return fail(ErrorCode::refused, "mesh " + name + " exists with another " +
                                          std::string(*field) + "; use another name, or the same " +
                                          std::string(*field));
    if (mesh->owner_gone)
      return fail(ErrorCode::refused, "mesh " + name + " is being stopped: its owner is gone");
  }
  const auto fresh = find_fresh_ranks(spec, mesh);
  if (!fresh) return fail(fresh.error());
  if (mesh != nullptr && spec.lease.count() > 0) renew_lease(*mesh, spec.lease);
  if (fresh->empty()) return 0;
  if (const auto allowed = drains_.check_start(name, spec.owner); !allowed)
    return fail(allowed.error());

  if (const auto kept = options_.limits.check(spec.command.settings.group); !kept)
    return fail(kept.error());

  const auto assignment = std::make_shared<const Assignment>(
      Assignment{spec, shared_environment(spec, options_.environment)});
  if (mesh == nullptr) {
    auto log_directory = find_log_directory(name);
    if (!log_directory) return fail(log_directory.error());
    mesh = &table_.add_mesh(std::move(spec), reactor_.now());
    mesh->log_directory = std::move(*log_directory);
    mesh->relaying = mesh->spec.output == wire::OutputMode::stream;
    if (mesh->relaying) relaying_.insert(mesh);
    arm_lease(*mesh);
  }
  // Of a new life the ledger has the request already, which was for the first one: they differ in
  // nothing that another agent needs.
  if (assignment->spec.restarts == 0) ledger_.add_request(*mesh, std::move(entry));
  const auto asked_ns = now_ns();
  for (const auto rank : *fresh) {
    Proc* const former = mesh->find(rank);
    Proc* proc = former == nullptr ? table_.add_proc(*mesh, assignment, rank, random_u64(), tail_)
                                   : begin_life(*former, assignment);
    if (proc == nullptr)
      return fail(ErrorCode::refused,
                  "rank " + std::to_string(rank) + " of " + name +
                      " has the same address key as another proc here; use another name");
    proc->slot = spool_.take_slot();
    proc->asked = reactor_.now();
    proc->launch.mutate_asked_ns(asked_ns);
    ending_.publish(*proc);
    spawner_.add(*proc);
  }
  arm_ready(assignment);
  return fresh->size();
}

Result<std::string> MeshProcs::find_log_directory(const std::string& mesh) const {
  const auto& directory = options_.config.path(keys::logs_directory);
  if (directory.empty()) return std::string();
  return make_log_directory(directory, mesh);
}

void MeshProcs::arm_ready(const std::shared_ptr<const Assignment>& assignment) {
  if (assignment->spec.ready_limit.count() == 0) return;
  const auto timer = std::make_shared<Reactor::TimerId>();
  *timer = reactor_.after(assignment->spec.ready_limit, [this, assignment, timer] {
    ready_timers_.erase(*timer);
    check_ready(*assignment);
  });
  ready_timers_.insert(*timer);
}

void MeshProcs::on_birth(keeper::Birth birth) {
  Proc* proc = table_.find_id(birth.id);
  spawner_.on_birth(birth.id);
  if (proc == nullptr) return on_stray(birth);
  if (birth.failure && proc->has_ended()) return keeper_.forget({birth.id});
  if (birth.failure) {
    const bool is_cancelled =
        birth.failure->stage == keeper::SpawnStage::cancelled && proc->state.is_stop_asked();
    if (is_cancelled && !proc->failure) return ending_.cancel(*proc);
    const bool is_file = is_about_the_file(birth.failure->stage);
    return ending_.fail(
        *proc, {.code = is_file ? wire::ErrorCode::exec_failed : wire::ErrorCode::io_error,
                .os_error = birth.failure->error,
                .text = describe_spawn_failure(*birth.failure, proc->mesh.spec.command.program,
                                               options_.host),
                .cause = is_file ? wire::Cause::exec_failed : wire::Cause::spawn_failed});
  }
  proc->assignment.reset();
  const bool is_known = std::exchange(proc->progress, SpawnProgress::born) == SpawnProgress::born;
  if (is_known && proc->exit_reported) return;
  if (proc->has_ended() && !is_known) return ending_.kill_unwanted(*proc);
  outputs_.attach(*proc, std::move(birth.stdout_pipe), std::move(birth.stderr_pipe));
  inputs_.attach(*proc, std::move(birth.stdin_pipe));
  if (is_known) return;  // another agent has told of it
  if (options_.own_pid_namespace) {
    // For people: what they see on this machine. One that has ended already has no such number any
    // more.
    if (const pid_t pid = pid_of(birth.pidfd); pid != 0) birth.pid = pid;
  }
  proc->state.on_started(static_cast<std::uint32_t>(birth.pid), birth.started_realtime_ns);
  proc->launch.mutate_spawned_ns(birth.spawned_realtime_ns);
  proc->launch.mutate_exec_ns(birth.started_realtime_ns);
  ending_.publish(*proc);
  const bool is_up = proc->mesh.spec.kind == wire::ProcKind::plain || proc->said_ready;
  if (ending_.on_born(*proc) && is_up) become_ready(*proc);
}

void MeshProcs::on_ready(Proc& proc, std::int64_t connected_ns, std::int64_t hello_ns) {
  if (std::exchange(proc.said_ready, true)) return;
  table_.touch(proc);
  // Its own account of times that must be before now.
  const auto now = now_ns();
  proc.launch.mutate_connected_ns(connected_ns > 0 && connected_ns <= now ? connected_ns : 0);
  proc.launch.mutate_hello_ns(hello_ns > 0 && hello_ns <= now ? hello_ns : 0);
  if (!proc.termination) become_ready(proc);
}

void MeshProcs::become_ready(Proc& proc) {
  if (!proc.state.on_ready()) return;
  proc.launch.mutate_ready_ns(now_ns());
  ending_.publish(proc);
}

void MeshProcs::check_ready(const Assignment& assignment) {
  // By name: the mesh may have been forgotten meanwhile.
  Mesh* mesh = table_.find_mesh(assignment.spec.mesh.to_string());
  if (mesh == nullptr) return;
  for (const RankBlock& block : assignment.spec.create_ranks) {
    for (auto entry = mesh->procs.lower_bound(block.begin);
         entry != mesh->procs.end() && entry->first < block.end; ++entry) {
      Proc& proc = *entry->second;
      // Started anew, or perhaps by another request: it has its own time.
      if (proc.asked + assignment.spec.ready_limit > reactor_.now()) continue;
      // A stop that is under way is bounded by itself.
      if (proc.state.state() < wire::ProcState::ready && !proc.termination)
        fail_unready(proc, assignment.spec.ready_limit);
    }
  }
}

void MeshProcs::fail_unready(Proc& proc, std::chrono::milliseconds limit) {
  std::string stage = "exec'd, no hello from it yet";
  if (proc.progress == SpawnProgress::queued) stage = "queued, waits for its turn to be started";
  if (proc.progress == SpawnProgress::asked) stage = "spawned, not yet exec'd";
  Failure failure{
      .code = wire::ErrorCode::timeout,
      .text = "not ready within " + std::to_string(limit.count()) + " ms; stage: " + stage,
      .cause = wire::Cause::not_ready};
  if (is_stopped(proc)) {
    failure.text += "; it is frozen: stopped by a signal (state T)";
    failure.cause = wire::Cause::frozen;
  }
  if (proc.progress == SpawnProgress::queued) {
    ending_.fail(proc, std::move(failure));
  } else {
    ending_.kill_as_failed(proc, std::move(failure));
  }
}

void MeshProcs::on_keeper_lost() {
  reactor_.forget(keeper_.fd());
  log::error("the keeper is gone: every proc of this host counts as failed");
  const std::string why = events_.why_keeper_lost ? events_.why_keeper_lost() : std::string();
  for (Proc* proc : table_.live_procs()) {
    outputs_.drain(*proc);
    proc->gone = true;
    ending_.fail(*proc, {.code = wire::ErrorCode::internal,
                         .text = "keeper lost: the process that held the procs of host " +
                                 options_.host + " has died" + (why.empty() ? "" : ": " + why),
                         .cause = why.empty() ? wire::Cause::keeper_lost : wire::Cause::frozen,
                         .consequence = true});
  }
  events_.on_keeper_lost();
}

void MeshProcs::on_output_taken(Mesh& mesh, const wire::OutputTaken& taken) {
  if (taken.positions() == nullptr && taken.ended() == nullptr) mesh.relay.taken(taken.bytes());
  if (taken.positions() != nullptr) {
    for (const auto* position : *taken.positions())
      mesh.relay.taken(position->rank(), position->stream(), position->offset());
  }
  if (taken.ended() != nullptr) {
    for (const auto rank : *taken.ended()) mesh.relay.end_known(rank);
  }
  if (taken.resend()) mesh.relay.resend();
  for (const auto& progress : mesh.relay.take_progress()) {
    const auto found = mesh.procs.find(progress.rank);
    if (found == mesh.procs.end()) continue;
    Proc& proc = *found->second;
    const OutputPipe& pipe = progress.stream == wire::Stream::err ? proc.err : proc.out;
    spool_.release(proc.slot, progress.stream,
                   progress.taken - std::min(progress.taken, pipe.before.read));
    if (proc.exit_reported) free_slot(proc);
  }
}

void MeshProcs::shut_down(const StopOrder& order, std::size_t in_flight, Drain::Done done) {
  if (shutdown_) return shutdown_->join(order, in_flight, std::move(done));
  book_.add(wire::EventKind::host_stopping, {}, order.requester,
            order.reason + ": " + std::to_string(table_.live()) + " live procs are stopped");
  shutdown_ = std::make_unique<Drain>(reactor_, table_, ending_, DrainScope(), order, in_flight,
                                      std::move(done));
  shutdown_->pump();
}

}  // namespace meshbus::host

#include "agent/host/services/lifecycle_service.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/host/lifecycle/free_port.h"
#include "agent/host/model/exit_report.h"
#include "agent/host/model/restart_plan.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/bootstrap_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

// What the event log takes of a request that was refused.
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kMostBlocks = 1000;

bool is_for_ending(int signal) {
  switch (signal) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGABRT:
    case SIGKILL:
    case SIGTERM: return true;
    default: return false;
  }
}

void set_ranks(wire::EventT& event, const std::vector<RankBlock>& ranks) {
  const auto count = std::min(ranks.size(), kMostBlocks);
  for (std::size_t i = 0; i < count; ++i) event.ranks.emplace_back(ranks[i].begin, ranks[i].end);
}

/// Calls `each` for the ranks of a request; none: all. Returns the first rank that is not there.
template <typename Each>
std::optional<std::uint64_t> for_ranks(Mesh& mesh, const std::vector<RankBlock>& ranks, Each each) {
  if (ranks.empty()) {
    for (const auto& [rank, proc] : mesh.procs) each(*proc);
    return std::nullopt;
  }
  std::optional<std::uint64_t> missing;
  for (const RankBlock& block : ranks) {
    auto expected = block.begin;
    for (auto entry = mesh.procs.lower_bound(block.begin);
         entry != mesh.procs.end() && entry->first < block.end; ++entry) {
      if (entry->first != expected && !missing) missing = expected;
      expected = entry->first + 1;
      each(*entry->second);
    }
    if (expected != block.end && !missing) missing = expected;
  }
  return missing;
}

Error no_such_rank(const Mesh& mesh, std::uint64_t rank, const std::string& host) {
  return {ErrorCode::not_exist,
          "mesh " + mesh.name + " has no rank " + std::to_string(rank) + " on host " + host};
}

}  // namespace

void LifecycleService::add_rows(Dispatcher& handlers,
                                const std::unique_ptr<LifecycleService>& service) {
  using Self = LifecycleService;
  handlers.on<wire::SpawnProcs>(Role::operate, row(service, &Self::on_spawn_procs))
      .on<wire::RestartProcs>(Role::operate, row(service, &Self::on_restart_procs))
      .on<wire::StopProcs>(Role::operate, row(service, &Self::on_stop_procs))
      .on<wire::SignalProcs>(Role::operate, row(service, &Self::on_signal_procs))
      .on<wire::WriteInput>(Role::operate, row(service, &Self::on_write_input))
      .on<wire::GetFreePort>(Role::operate, row(service, &Self::on_get_free_port))
      .on<wire::ProcReady>(Role::proc, row(service, &Self::on_proc_ready))
      .on<wire::ProcHeartbeat>(Role::proc, row(service, &Self::on_proc_heartbeat));
}

void LifecycleService::answer_spawns() {
  if (std::exchange(has_accepted_, false)) parts_.bus.flush_early();
}

void LifecycleService::send_questions() {
  for (auto& question : parts_.procs.ending().take_questions()) {
    wire::StopAndExitT stop;
    stop.grace_ms = static_cast<std::uint32_t>(question.grace.count());
    stop.reason = std::move(question.reason);
    const auto limit = std::max(question.grace, std::chrono::milliseconds(1));
    parts_.bus.request(Destination::to(question.proc), std::move(stop), limit,
                       [this, id = question.id](const Result<ControlMessage>& answer) {
                         if (answer) return;
                         log::debug("StopAndExit: " + answer.error().to_string());
                         parts_.procs.ending().skip_ask(id);
                       });
  }
}

void LifecycleService::refuse_spawn(const Request& request, const std::string& mesh,
                                    std::string owner, const Error& error) {
  // A restart that comes too early is asked for again: nothing has failed.
  if (error.code() == ErrorCode::would_block) return parts_.checks.refuse(request, error);
  wire::EventT event;
  event.kind = wire::EventKind::spawn_refused;
  event.mesh = mesh.substr(0, kLongestName);
  event.by = std::move(owner);
  event.text = error.to_string().substr(0, kLongestText);
  parts_.procs.events().add_limited(std::move(event));
  parts_.checks.refuse(request, error);
}

void LifecycleService::on_spawn_procs(const Request& request, const wire::SpawnProcs& message) {
  auto spec = parse_spawn(message, address_);
  auto owner = short_text(message.owner());
  if (!spec) return refuse_spawn(request, message.mesh()->str(), std::move(owner), spec.error());
  const std::string name = spec->mesh.to_string();
  SpawnOrder order{.request = request,
                   .spec = std::move(*spec),
                   .entry = LedgerWriter::request_entry(name, message),
                   .owner = std::move(owner)};
  // Ranks that are restarted are bound as they were, if they were here.
  const bool is_bound = order.spec.restarts > 0 && order.spec.moved_from.empty();
  if (!order.spec.command.binding.is_wanted() || is_bound) return spawn(std::move(order), nullptr);
  waiting_.push_back(std::move(order));
  topologies_.read([this, waiting = std::prev(waiting_.end())](const auto& topology) {
    auto found = std::move(*waiting);
    waiting_.erase(waiting);
    if (found.is_dropped) return;
    if (topology) return spawn(std::move(found), &*topology);
    refuse_spawn(found.request, found.spec.mesh.to_string(), std::move(found.owner),
                 topology.error().within("host " + parts_.checks.host()));
  });
}

void LifecycleService::stop_waiting(std::string_view mesh, const RanksToStop& stop) {
  for (auto& order : waiting_) {
    if (order.is_dropped || order.spec.mesh.to_string() != mesh) continue;
    if (!stop.ranks.empty()) {
      order.stops.push_back(stop);
      continue;
    }
    order.is_dropped = true;
    refuse_spawn(order.request, std::string(mesh), order.owner,
                 Error(ErrorCode::refused, "the mesh was stopped before its ranks were started"));
  }
}

void LifecycleService::spawn(SpawnOrder order, const topology::Topology* topology) {
  const ProcId owner = order.spec.owner;
  const std::string name = order.spec.mesh.to_string();
  wire::EventT moved;
  moved.kind = wire::EventKind::moved;
  moved.mesh = name;
  moved.by = order.owner;
  if (!order.spec.moved_from.empty()) {
    set_ranks(moved, order.spec.create_ranks);
    moved.text = ("started here because host " + order.spec.moved_from + " is lost" +
                  (order.spec.moved_because.empty() ? "" : ": ") + order.spec.moved_because)
                     .substr(0, kLongestText);
  }
  auto spawned = parts_.procs.spawn(std::move(order.spec), std::move(order.entry), topology);
  if (!spawned) return refuse_spawn(order.request, name, std::move(order.owner), spawned.error());
  if (spawned->started != 0 && !moved.text.empty()) parts_.procs.events().add(std::move(moved));
  wire::SpawnAcceptedT accepted;
  accepted.started = spawned->started;
  accepted.bindings = std::move(spawned->bindings);
  accepted.notes = std::move(spawned->notes);
  parts_.bus.answer(order.request, std::move(accepted));
  has_accepted_ = true;
  Mesh* const mesh = parts_.procs.table().find_mesh(name);
  if (mesh == nullptr) return;
  for (const auto& waited : order.stops) stop(*mesh, waited);
  if (mesh->ownership.is_gone()) return;
  parts_.ownership.watch(mesh->ownership.owner());
  if (is_sender(order.request.envelope, owner) && mesh->ownership.incarnation() == 0) {
    mesh->ownership.identify(order.request.envelope.source_incarnation());
    parts_.procs.table().touch(*mesh);
  }
}

void LifecycleService::on_restart_procs(const Request& request, const wire::RestartProcs& message) {
  if (!parts_.checks.may_order(request, message.term())) return;
  Mesh* const mesh = parts_.checks.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    parts_.checks.refuse(request, Error(code, "mesh " + mesh->name + ": " + why));
  };
  MeshOwnership& ownership = mesh->ownership;
  const bool is_owner = is_sender(request.envelope, ownership.owner());
  const auto before = ProcId::parse(ownership.handed_by());
  const bool is_before =
      ownership.is_unconfirmed() && before && is_sender(request.envelope, *before);
  if (is_owner) ownership.confirm();
  if (ownership.is_gone() || !(is_owner || is_before))
    return refuse(
        ErrorCode::unauthorised,
        "its ranks are for its owner to restart, " +
            (ownership.is_gone() ? std::string("and it has none") : ownership.owner().to_string()));
  const auto ranks = parse_ranks(message.ranks(), kAnyRank, "RestartProcs.ranks");
  if (!ranks) return parts_.checks.refuse(request, ranks.error());
  auto plan = parse_restart_plan(message.plan());
  if (!plan) return parts_.checks.refuse(request, plan.error());
  const bool is_over = ownership.restarts() && ownership.restarts()->over;
  if (!ranks->empty() && is_over)
    return refuse(ErrorCode::refused, "it was stopped, so no rank of it is restarted");
  wire::SpawnAcceptedT accepted;
  if (!ranks->empty()) {
    const auto restarted = parts_.procs.restart(*mesh, *ranks, message.restarts());
    if (!restarted) return parts_.checks.refuse(request, restarted.error());
    accepted.started = restarted->started;
    // While none of its ranks lived, nobody renewed its lease.
    parts_.procs.owners().renew_lease(*mesh, std::chrono::milliseconds(0));
  }
  if (*plan) parts_.procs.owners().keep_restarts(*mesh, std::move(**plan));
  parts_.bus.answer(request, std::move(accepted));
  has_accepted_ = true;
}

void LifecycleService::on_stop_procs(const Request& request, const wire::StopProcs& message) {
  if (const auto name = Name::parse(message.mesh()->string_view()); !name)
    return parts_.checks.refuse(request, name.error().within("StopProcs.mesh"));
  if (!parts_.checks.may_order(request, message.term())) return;
  const auto ranks = parse_ranks(message.ranks(), kAnyRank, "StopProcs.ranks");
  if (!ranks) return parts_.checks.refuse(request, ranks.error());
  parts_.checks.ack(request);
  const RanksToStop wanted{.ranks = *ranks,
                           .order = {.reason = short_text(message.reason()),
                                     .requester = short_text(message.requester()),
                                     .grace = std::chrono::milliseconds(message.grace_ms()),
                                     .because = message.because()}};
  stop_waiting(message.mesh()->string_view(), wanted);
  Mesh* mesh = parts_.procs.table().find_mesh(message.mesh()->string_view());
  if (mesh != nullptr) stop(*mesh, wanted);
}

void LifecycleService::stop(Mesh& mesh, const RanksToStop& stop) {
  const StopOrder& order = stop.order;
  bool is_new = false;
  // A gang is stopped because of a rank, to be restarted with it.
  if (stop.ranks.empty() && !order.because) parts_.procs.owners().end_restarts(mesh);
  std::vector<std::uint64_t> stopped;
  for_ranks(mesh, stop.ranks, [&](Proc& proc) {
    is_new = is_new || (!proc.has_ended() && proc.stop.termination() == nullptr);
    if (!order.because) stopped.push_back(proc.rank());
    parts_.procs.ending().stop(proc, order);
  });
  // Before their owner hears of the ends.
  parts_.procs.owners().stop_ranks(mesh, stopped);
  if (!is_new) return;
  wire::EventT event;
  event.kind = wire::EventKind::stop_asked;
  event.mesh = mesh.name;
  event.by = order.requester;
  event.text = (order.reason.empty() ? "a stop" : order.reason) + " (grace " +
               std::to_string(order.grace.count()) + " ms)";
  event.because = order.because;
  set_ranks(event, stop.ranks);
  parts_.procs.events().add(std::move(event));
}

void LifecycleService::on_signal_procs(const Request& request, const wire::SignalProcs& message) {
  const int signal = message.signal();
  const auto ranks = parse_ranks(message.ranks(), kAnyRank, "SignalProcs.ranks");
  if (!ranks) return parts_.checks.refuse(request, ranks.error());
  if (signal < 1 || signal > 64)
    return parts_.checks.refuse(
        request, Error(ErrorCode::out_of_range, "SignalProcs.signal: there is no signal " +
                                                    std::to_string(signal) + "; 1 to 64"));
  Mesh* mesh = parts_.checks.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto missing = for_ranks(*mesh, *ranks, [](Proc&) {});
  if (missing)
    return parts_.checks.refuse(request, no_such_rank(*mesh, *missing, parts_.checks.host()));
  parts_.procs.ending().forget_refusals();
  for_ranks(*mesh, *ranks, [&](Proc& proc) { parts_.procs.ending().signal(proc, signal); });
  parts_.procs.ending().after_signals(mesh->name, [this, request](const Result<void>& sent) {
    if (sent) return parts_.checks.ack(request);
    parts_.checks.refuse(request, sent.error().within("host " + parts_.checks.host()));
  });
  if (!is_for_ending(signal)) return;
  wire::EventT event;
  event.kind = wire::EventKind::signal_asked;
  event.mesh = mesh->name;
  event.by = short_text(message.requester());
  event.text = signal_name(signal) + " was asked for";
  set_ranks(event, *ranks);
  parts_.procs.events().add_limited(std::move(event));
}

void LifecycleService::on_write_input(const Request& request, const wire::WriteInput& message) {
  Mesh* mesh = parts_.checks.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  Proc* proc = mesh->find(message.rank());
  if (proc == nullptr)
    return parts_.checks.refuse(request, no_such_rank(*mesh, message.rank(), parts_.checks.host()));
  const auto* bytes = message.data();
  const Bytes data = bytes == nullptr ? Bytes() : bytes_of(bytes->data(), bytes->size());
  parts_.procs.inputs().write(*proc, data, message.end(),
                              [this, request](const Result<void>& written) {
                                if (written) return parts_.checks.ack(request);
                                parts_.checks.refuse(request, written.error());
                              });
}

void LifecycleService::on_get_free_port(const Request& request, const wire::GetFreePort&) {
  const auto port = find_free_port();
  if (!port)
    return parts_.checks.refuse(request, port.error().within("host " + parts_.checks.host()));
  wire::FreePortT answer;
  answer.port = *port;
  parts_.bus.answer(request, std::move(answer));
}

void LifecycleService::on_proc_ready(const Request& request, const wire::ProcReady& message) {
  Proc* proc = parts_.checks.find_proc(request, message.proc());
  if (proc == nullptr) return;
  if (message.incarnation() != proc->incarnation())
    return parts_.checks.refuse(
        request, Error(ErrorCode::identity_mismatch,
                       "ProcReady.incarnation: it is not the one in the bootstrap of " +
                           message.proc()->str()));
  parts_.checks.ack(request);
  parts_.procs.launches().on_said_ready(*proc, message.connected_ns(), message.hello_ns());
  parts_.liveness.on_heartbeat(*proc);
  parts_.resizes.tell(*proc);
}

void LifecycleService::on_proc_heartbeat(const Request& request,
                                         const wire::ProcHeartbeat& message) {
  Proc* proc = parts_.checks.find_proc(request, message.proc());
  if (proc == nullptr) return;
  parts_.checks.ack(request);
  parts_.liveness.on_heartbeat(*proc, message);
}

}  // namespace meshbus::host

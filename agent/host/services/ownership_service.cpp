#include "agent/host/services/ownership_service.h"

#include <utility>

#include "common/address/host_resource.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/actors_generated.h"
#include "wire/bus_generated.h"
#include "wire/frame_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

/// What an actor gets to end in beyond its grace, before the request is given up.
constexpr std::chrono::seconds kActorStopLimit{30};
/// The list of missing meshes in a refusal has at most about so many bytes.
constexpr std::size_t kLongestList = 4096;

}  // namespace

OwnershipService::OwnershipService(const Parts& parts, std::chrono::milliseconds actor_grace)
    : parts_(parts),
      actor_grace_(actor_grace),
      peers_(parts.bus, [this](const std::string& peer) { on_peer_gone(peer); }),
      actor_leases_(parts.bus.reactor(),
                    std::bind_front(&OwnershipService::on_actor_lease_lapsed, this)) {}

void OwnershipService::add_rows(Dispatcher& handlers,
                                const std::unique_ptr<OwnershipService>& service) {
  using Self = OwnershipService;
  handlers.on<wire::RenewLease>(Role::operate, row(service, &Self::on_renew_lease))
      .on<wire::HandOver>(Role::operate, row(service, &Self::on_hand_over))
      .on<wire::Gone>(Role::broker, row(service, &Self::on_gone));
}

void OwnershipService::watch_all() {
  for (const auto& [name, mesh] : parts_.procs.table().meshes()) {
    if (!mesh->ownership.is_gone()) peers_.add(mesh->ownership.owner());
    for (const auto& [text, subscriber] : mesh->subscribers) peers_.add(subscriber);
  }
}

void OwnershipService::release(const ProcId& peer) {
  if (!is_needed(peer)) peers_.remove(peer);
}

bool OwnershipService::is_needed(const ProcId& peer) const {
  const auto text = peer.to_string();
  for (const auto& [name, mesh] : parts_.procs.table().meshes()) {
    if (mesh->subscribers.contains(text) || mesh->ownership.has_owner(peer)) return true;
  }
  return parts_.logs.has(peer) || parts_.waits.has(text) || parts_.collections.has(text) ||
         parts_.execs.has(peer);
}

void OwnershipService::on_gone(const Request& request, const wire::Gone& message) {
  peers_.on_gone(request.envelope.source_host(), message);
}

void OwnershipService::on_peer_gone(const std::string& peer) {
  const auto reader = ProcId::parse(peer);
  if (reader) parts_.logs.drop(*reader);
  if (reader) parts_.execs.drop(*reader);
  if (reader) parts_.bus.give_up(Destination::to(*reader), "its connection has ended");
  parts_.waits.drop(peer);
  parts_.collections.drop(peer);
  ProcTable& table = parts_.procs.table();
  for (const auto& [name, mesh] : table.meshes()) {
    if (mesh->subscribers.erase(peer) > 0) table.touch(*mesh);
    const MeshOwnership& ownership = mesh->ownership;
    if (!ownership.is_gone() && ownership.owner().to_string() == peer)
      parts_.procs.owners().on_owner_gone(*mesh);
  }
}

void OwnershipService::on_undeliverable(const wire::Envelope& envelope, const Error& error) {
  const auto receiver = envelope.destination_proc();
  if (const auto reader = parts_.logs.on_undeliverable(receiver)) peers_.check(*reader);
  if (const auto requester = parts_.execs.on_undeliverable(receiver)) peers_.check(*requester);
  ProcTable& table = parts_.procs.table();
  for (const auto& [name, mesh] : table.meshes()) {
    const auto dropped = std::erase_if(mesh->subscribers, [&](const auto& entry) {
      if (entry.second.key() != receiver) return false;
      log::info("mesh " + name + ": subscriber " + entry.first +
                " is dropped: " + error.to_string());
      return true;
    });
    if (dropped > 0) table.touch(*mesh);
    const MeshOwnership& ownership = mesh->ownership;
    if (ownership.key() != receiver || ownership.is_gone()) continue;
    parts_.publisher.retry_owner(*mesh, envelope.lane() == wire::Lane::data);
    peers_.check(ownership.owner());
  }
}

Result<void> OwnershipService::renew(const std::string& name, std::chrono::milliseconds length,
                                     const wire::Envelope& sender) {
  if (name == kHostResource) return parts_.host.renew(length);
  const bool is_of_actors = ActorLeases::is_meant(name);
  Mesh* mesh = parts_.procs.table().find_mesh(is_of_actors ? ActorLeases::mesh_of(name) : name);
  if (mesh == nullptr) return fail(ErrorCode::not_exist, name);
  if (is_of_actors) return actor_leases_.renew(name, length);
  parts_.procs.owners().renew_lease(*mesh, length);
  if (mesh->ownership.key() != sender.source_proc() || mesh->ownership.is_gone()) return {};
  mesh->ownership.confirm();
  if (mesh->ownership.identify(sender.source_incarnation())) parts_.procs.table().touch(*mesh);
  parts_.procs.owners().on_owner_back(*mesh);
  peers_.add(mesh->ownership.owner());
  return {};
}

void OwnershipService::on_renew_lease(const Request& request, const wire::RenewLease& message) {
  if (!parts_.checks.may_order(request, message.term())) return;
  const std::chrono::milliseconds length(message.lease_ms());
  std::string missing;
  std::optional<Error> full;
  // One that fails does not keep the others from being renewed.
  for (const auto* name : *message.meshes()) {
    const auto renewed = renew(name->str(), length, request.envelope);
    if (renewed) continue;
    if (renewed.error().code() != ErrorCode::not_exist) {
      full = renewed.error();
    } else if (missing.size() < kLongestList) {
      missing += (missing.empty() ? "" : ", ") + name->str();
    }
  }
  if (full) return parts_.checks.refuse(request, *full);
  if (missing.empty()) return parts_.checks.ack(request);
  parts_.checks.refuse(
      request, Error(ErrorCode::not_exist, "host " + parts_.checks.host() + " has no mesh " +
                                               missing + "; leases of the others are renewed"));
}

bool OwnershipService::move_owner(const Request& request, Mesh& mesh, const ProcId& owner) {
  const ProcId before = mesh.ownership.owner();
  if (request.envelope.role() < Role::operate ||
      !parts_.procs.owners().move_owner(mesh, owner, request.envelope.source_incarnation()))
    return false;
  peers_.add(owner);
  if (before == owner) return true;
  mesh.subscribers.erase(owner.to_string());
  release(before);
  parts_.publisher.on_owner_moved(mesh);
  parts_.logs.mark(mesh);
  return true;
}

Result<void> OwnershipService::check_may_hand_over(const wire::Envelope& envelope, const Mesh& mesh,
                                                   const ProcId& owner) const {
  const MeshOwnership& ownership = mesh.ownership;
  // A mesh without an owner: any operator may name one.
  if (ownership.is_detached()) return {};
  if (is_sender(envelope, ownership.owner())) return {};
  // The handover is done already; the former owner repeats the request because the answer was lost.
  const auto& handed_by = ownership.handed_by();
  const auto before =
      handed_by.empty() ? fail(ErrorCode::not_exist, "none") : ProcId::parse(handed_by);
  if (before && is_sender(envelope, *before) && owner == ownership.owner()) return {};
  return fail(ErrorCode::unauthorised, "mesh " + mesh.name + " is for its owner to hand over, " +
                                           ownership.owner().to_string());
}

void OwnershipService::on_hand_over(const Request& request, const wire::HandOver& message) {
  if (!parts_.checks.may_order(request, message.term())) return;
  const auto refuse = [&](const Error& error) { parts_.checks.refuse(request, error); };
  const auto owner = ProcId::parse(message.owner()->string_view());
  if (!owner) return refuse(owner.error().within("HandOver.owner"));
  if (message.loss() > wire::OwnerLoss::MAX)
    return refuse(Error(ErrorCode::out_of_range,
                        "HandOver.loss: " + std::to_string(static_cast<int>(message.loss()))));
  if (message.lease_ms() == 0 && message.loss() != wire::OwnerLoss::stop)
    return refuse(Error(ErrorCode::configuration_error,
                        "HandOver.lease_ms: without a lease nobody would notice that the owner "
                        "does not come back"));
  if (message.mesh()->string_view() == kHostResource)
    return hand_over_host(request, message, *owner);
  Mesh* mesh = parts_.checks.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto may = check_may_hand_over(request.envelope, *mesh, *owner);
  if (!may) return refuse(may.error());
  const auto done =
      hand_over(*mesh, *owner, std::chrono::milliseconds(message.lease_ms()), message.loss());
  if (!done) return refuse(done.error());
  parts_.checks.ack(request);
}

Result<void> OwnershipService::hand_over(Mesh& mesh, const ProcId& owner,
                                         std::chrono::milliseconds lease, wire::OwnerLoss loss) {
  // What is not told yet is for the owner before.
  parts_.publisher.flush_changes(mesh);
  const ProcId before = mesh.ownership.owner();
  // All in this turn: there is no moment in which neither owner is watched. Should the new one not
  // be there, the lease lapses.
  peers_.add(owner);
  auto done = parts_.procs.owners().hand_over(mesh, owner, lease, loss);
  if (done) {
    parts_.publisher.tell_owner(mesh);
    parts_.logs.mark(mesh);
  }
  release(owner);
  release(before);
  return done;
}

void OwnershipService::hand_over_host(const Request& request, const wire::HandOver& message,
                                      const ProcId& owner) {
  auto done = parts_.host.check_may_hand_over(request.envelope, owner);
  if (done)
    done =
        parts_.host.hand_over(owner, std::chrono::milliseconds(message.lease_ms()), message.loss());
  if (!done) return parts_.checks.refuse(request, done.error());
  parts_.checks.ack(request);
}

void OwnershipService::on_actor_lease_lapsed(const std::string& mesh, const std::string& actor,
                                             std::chrono::milliseconds length) {
  const Mesh* const found = parts_.procs.table().find_mesh(mesh);
  if (found == nullptr || found->spec.kind != wire::ProcKind::mesh) return;
  const auto reason =
      "its lease has lapsed: nobody has renewed it for " + std::to_string(length.count()) + " ms";
  const auto is_noted = std::make_shared<bool>(false);
  for (const auto& [rank, proc] : found->procs) {
    if (proc->has_ended()) continue;
    wire::StopActorT stop;
    stop.name = actor;
    stop.reason = reason;
    stop.grace_ms = static_cast<std::uint32_t>(actor_grace_.count());
    const auto on_answer = [this, alive = std::weak_ptr<void>(alive_), mesh, actor, reason,
                            is_noted](const Result<ControlMessage>& answer) {
      // Most have ended long before: their launcher has stopped them, and then renewed nothing.
      const auto* const state = answer ? answer->body_as<wire::ActorState>() : nullptr;
      if (state == nullptr || text_of(state->reason()) != reason || alive.expired()) return;
      if (std::exchange(*is_noted, true)) return;
      log::warn("actors " + mesh + "," + actor + ": " + reason + "; they are stopped");
      parts_.procs.events().add(wire::EventKind::lease_lapsed, mesh, {},
                                "actors " + actor + ": " + reason);
    };
    parts_.bus.request(Destination::to(proc->address), std::move(stop),
                       actor_grace_ + kActorStopLimit, on_answer);
  }
}

}  // namespace meshbus::host

// The handlers of HostAgent for those who answer for meshes.
#include "agent/host/host_agent.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/actors_generated.h"
#include "wire/frame_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

/// For an actor to end, beyond its grace.
constexpr std::chrono::seconds kActorStopLimit{30};

}  // namespace

void HostAgent::on_renew_lease(const Request& request, const wire::RenewLease& message) {
  std::string missing;
  std::optional<Error> full;
  const std::chrono::milliseconds length(message.lease_ms());
  for (const auto* name : *message.meshes()) {
    const bool is_of_actors = ActorLeases::is_meant(name->string_view());
    Mesh* mesh = procs_->table().find_mesh(is_of_actors ? ActorLeases::mesh_of(name->string_view())
                                                        : name->string_view());
    if (mesh != nullptr && is_of_actors) {
      if (const auto renewed = actor_leases_->renew(name->str(), length); !renewed)
        full = renewed.error();
    } else if (mesh != nullptr) {
      procs_->renew_lease(*mesh, length);
      if (mesh->owner_key != request.envelope.source_proc() || mesh->owner_gone) continue;
      procs_->on_owner_back(*mesh);
      peers_->add(mesh->spec.owner);
    } else if (missing.size() < 4096) {
      missing += (missing.empty() ? "" : ", ") + name->str();
    }
  }
  // The others are renewed all the same.
  if (full) return bus_->refuse(request, *full);
  if (!missing.empty())
    return bus_->refuse(
        request, Error(ErrorCode::not_exist, "host " + host_text_ + " has no mesh " + missing +
                                                 "; leases of the others are renewed"));
  ack(request);
}

void HostAgent::on_actor_lease_lapsed(const std::string& mesh, const std::string& actor,
                                      std::chrono::milliseconds length) {
  const Mesh* const found = procs_->table().find_mesh(mesh);
  if (found == nullptr) return;
  const auto reason =
      "its lease has lapsed: nobody has renewed it for " + std::to_string(length.count()) + " ms";
  const auto grace = options_.config.duration(keys::terminate_grace);
  const auto is_noted = std::make_shared<bool>(false);
  for (const auto& [rank, proc] : found->procs) {
    if (found->spec.kind != wire::ProcKind::mesh || proc->state.has_ended()) continue;
    wire::StopActorT stop;
    stop.name = actor;
    stop.reason = reason;
    stop.grace_ms = static_cast<std::uint32_t>(grace.count());
    bus_->request(
        Destination::to(proc->address), std::move(stop), grace + kActorStopLimit,
        [this, alive = std::weak_ptr<void>(alive_), mesh, actor, reason,
         is_noted](const Result<ControlMessage>& answer) {
          // Most have ended long before: their launcher has stopped them, and then renewed nothing.
          const auto* const state = answer ? answer->body_as<wire::ActorState>() : nullptr;
          if (state == nullptr || text_of(state->reason()) != reason || alive.expired() ||
              std::exchange(*is_noted, true))
            return;
          log::warn("actors " + mesh + "," + actor + ": " + reason + "; they are stopped");
          procs_->events().add(wire::EventKind::lease_lapsed, mesh, {},
                               "actors " + actor + ": " + reason);
        });
  }
}

Result<void> HostAgent::check_may_hand_over(const wire::Envelope& envelope, const Mesh& mesh,
                                            const ProcId& owner) const {
  const auto is_sender = [&](const ProcId& one) {
    return one.key() == envelope.source_proc() && one.host().key() == envelope.source_host();
  };
  // Nobody's: any operator may find somebody for it.
  if (mesh.owner_gone && mesh.loss == wire::OwnerLoss::detach) return {};
  if (is_sender(mesh.spec.owner)) return {};
  // Done already, and asked for again because the answer was lost.
  const auto before =
      mesh.handed_by.empty() ? fail(ErrorCode::not_exist, "nobody") : ProcId::parse(mesh.handed_by);
  if (before && is_sender(*before) && owner == mesh.spec.owner) return {};
  return fail(ErrorCode::unauthorised, "mesh " + mesh.name + " is for its owner to hand over, " +
                                           mesh.spec.owner.to_string());
}

void HostAgent::on_hand_over(const Request& request, const wire::HandOver& message) {
  const auto owner = ProcId::parse(message.owner()->string_view());
  if (!owner) return bus_->refuse(request, owner.error().within("HandOver.owner"));
  if (message.loss() > wire::OwnerLoss::MAX)
    return bus_->refuse(
        request, Error(ErrorCode::out_of_range,
                       "HandOver.loss: " + std::to_string(static_cast<int>(message.loss()))));
  if (message.lease_ms() == 0 && message.loss() != wire::OwnerLoss::stop)
    return bus_->refuse(request, Error(ErrorCode::configuration_error,
                                       "HandOver.lease_ms: without a lease nobody would notice "
                                       "that the owner does not come back"));
  Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  if (const auto may = check_may_hand_over(request.envelope, *mesh, *owner); !may)
    return bus_->refuse(request, may.error());
  // What is not told yet is for the one before.
  publisher_->flush_changes(*mesh);
  const ProcId before = mesh->spec.owner;
  // All in this turn: there is no moment in which nobody is watched. Should the new one not be
  // there, the lease says so.
  peers_->add(*owner);
  const auto done = procs_->hand_over(*mesh, *owner, std::chrono::milliseconds(message.lease_ms()),
                                      message.loss());
  if (!is_watched_still(*owner)) peers_->remove(*owner);
  if (!is_watched_still(before)) peers_->remove(before);
  if (!done) return bus_->refuse(request, done.error());
  ack(request);
}

}  // namespace meshbus::host

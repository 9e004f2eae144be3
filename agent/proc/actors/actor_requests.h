#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "agent/proc/actors/actor_subscribers.h"
#include "common/bus/bus.h"
#include "common/wire/dispatcher.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus::mesh_proc {

struct ActorCell;
class ActorSystem;

/// What launchers ask of the actors of one proc (schemas/actors.fbs), and what they are told. Lives
/// on the reactor's thread.
class ActorRequests {
 public:
  /// `system` must outlive this.
  ActorRequests(ActorSystem& system, ProcId self) : system_(system), self_(std::move(self)) {}
  ActorRequests(const ActorRequests&) = delete;
  ActorRequests& operator=(const ActorRequests&) = delete;

  void add_handlers(Dispatcher& handlers);
  /// Before everything else; null: nothing leaves any more.
  void attach(Bus* bus) noexcept { bus_ = bus; }
  /// A message of ours to a subscriber came back: it is gone.
  void on_undelivered(std::uint64_t subscriber) { subscribers_.forget(subscriber); }
  /// Tells subscribers what has changed since the last time, and answers requests that wait.
  void tell_changes();

 private:
  void on_spawn(const Request& request, const wire::SpawnActor& message);
  void on_stop(const Request& request, const wire::StopActor& message);
  void on_get(const Request& request, const wire::GetActorState& message);
  void on_list(const Request& request, const wire::ListActors& message);
  void on_stream(const Request& request, const wire::StreamActors& message);
  void on_stop_stream(const Request& request, const wire::StopActorStream& message);
  /// There is no such actor.
  void refuse_unknown(const Request& request, const std::string& name, std::uint64_t pid);
  /// The subscriber, if it is the sender; otherwise refuses it.
  std::optional<ProcId> subscriber_of(const Request& request, const flatbuffers::String& text);

  ActorSystem& system_;
  const ProcId self_;
  Bus* bus_ = nullptr;
  ActorSubscribers subscribers_;
};

}  // namespace meshbus::mesh_proc

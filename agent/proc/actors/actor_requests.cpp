// What launchers ask (schemas/actors.fbs), and what they are told. On the reactor's thread.
#include <algorithm>
#include <functional>
#include <utility>

#include "agent/proc/actors/actor_system.h"
#include "common/wire/control.h"
#include "wire/actors_generated.h"
#include "wire/bus_generated.h"

namespace meshbus::mesh_proc {
namespace {

/// States in one message: one has 25 KiB at most.
constexpr std::size_t kEventStates = 32;
/// Bytes of text in a list after which no more is added.
constexpr std::size_t kListBytes = 512 * 1024;

/// Subscribers, and the actors that one of them may be subscribed to without having spawned them.
constexpr std::size_t kMostSubscribers = 1024;
constexpr std::size_t kMostStreams = 4096;

bool is_end(wire::StatusKind status) {
  return status == wire::StatusKind::stopped || status == wire::StatusKind::failed;
}

std::size_t text_bytes(const wire::ActorStateT& state) {
  std::size_t bytes =
      256 + state.name.size() + state.type.size() + state.reason.size() + state.message.size();
  for (const auto& cause : state.causes) bytes += 16 + cause.size();
  return bytes;
}

}  // namespace

void ActorSystem::add_handlers(Dispatcher& handlers) {
  handlers.on<wire::SpawnActor>(Role::operate, std::bind_front(&ActorSystem::on_spawn, this))
      .on<wire::StopActor>(Role::operate, std::bind_front(&ActorSystem::on_stop, this))
      .on<wire::GetActorState>(Role::observe, std::bind_front(&ActorSystem::on_get, this))
      .on<wire::ListActors>(Role::observe, std::bind_front(&ActorSystem::on_list, this))
      .on<wire::StreamActors>(Role::observe, std::bind_front(&ActorSystem::on_stream, this))
      .on<wire::StopActorStream>(Role::observe,
                                 std::bind_front(&ActorSystem::on_stop_stream, this));
}

std::shared_ptr<ActorCell> ActorSystem::find(const Key& key) {
  const auto found = cells_.find(key);
  return found == cells_.end() ? nullptr : found->second;
}

wire::ActorStateT ActorSystem::state_of(const ActorCell& cell) const {
  wire::ActorStateT state;
  state.name = cell.id.name().to_string();
  state.pid = cell.id.pid();
  state.type = cell.type_name;
  state.create_rank = cell.rank;
  if (cell.parent != nullptr) state.parent = cell.parent->id.pid();
  state.status = static_cast<wire::StatusKind>(cell.life.status());
  state.generation = cell.life.generation();
  state.changed_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(cell.life.changed().time_since_epoch())
          .count();
  const bool has_failed = cell.life.status() == Status::Kind::failed;
  state.reason = cut_text(has_failed ? cell.life.fault().error : cell.life.reason());
  if (has_failed) {
    state.message = cut_text(cell.life.fault().message, 1024);
    state.causes = cell.life.fault().causes;
  }
  state.handled = cell.handled;
  state.dropped = cell.dropped;
  return state;
}

void ActorSystem::on_spawn(const Request& request, const wire::SpawnActor& message) {
  const auto name = Name::parse(message.name()->string_view());
  if (!name) return bus_->refuse(request, name.error());
  std::optional<ProcId> owner;
  if (message.owner() != nullptr && message.owner()->size() > 0) {
    auto parsed = ProcId::parse(message.owner()->string_view());
    if (!parsed) return bus_->refuse(request, parsed.error().within("owner"));
    owner = std::move(*parsed);
  }
  const auto type = message.type()->str();
  std::string params;
  if (message.params() != nullptr)
    params.assign(reinterpret_cast<const char*>(message.params()->data()),
                  message.params()->size());

  std::optional<Error> refusal;
  std::optional<wire::ActorStateT> state;
  {
    const Lock lock(mutex_);
    auto cell = find({name->to_string(), 0});
    if (cell == nullptr) {
      auto made = make(type, *name, 0, std::move(params));
      if (made) {
        cell = std::move(*made);
        cell->rank = message.create_rank();
      } else {
        refusal = made.error();
      }
    } else if (cell->type_name != type || cell->params != params ||
               cell->rank != message.create_rank()) {
      refusal.emplace(ErrorCode::refused, "actor " + cell->id.to_string() +
                                              " exists with another spec (type " + cell->type_name +
                                              ", rank " + std::to_string(cell->rank) +
                                              "); take another name");
    } else if (cell->life.is_ended() && cell->has_run) {
      refusal.emplace(ErrorCode::refused,
                      "actor " + cell->id.to_string() + " " + cell->life.words() +
                          "; a name is used once in the life of a proc, take another one");
    }
    if (!refusal) {
      if (cell->life.status() == Status::Kind::initializing || cell->is_changed) {
        cell->spawn_waiters.push_back(request);
      } else if (!cell->has_run) {
        refusal.emplace(ErrorCode::actor_spawn_error,
                        "actor " + cell->id.to_string() + " " + cell->life.words());
      } else {
        state = state_of(*cell);
      }
    }
  }
  if (refusal) return bus_->refuse(request, *refusal);
  if (owner) subscribe(name->to_string(), *owner);
  if (state) bus_->answer(request, std::move(*state));
}

void ActorSystem::on_stop(const Request& request, const wire::StopActor& message) {
  std::optional<wire::ActorStateT> state;
  {
    const Lock lock(mutex_);
    const auto cell = find({message.name()->str(), message.pid()});
    if (cell != nullptr && cell->life.is_ended() && !cell->is_changed) {
      state = state_of(*cell);
    } else if (cell != nullptr) {
      cell->stop_waiters.push_back(request);
      begin_stop(*cell, cut_text(text_of(message.reason()), 1024),
                 reactor_.now() + std::chrono::milliseconds(message.grace_ms()));
      return;
    }
  }
  if (state) return bus_->answer(request, std::move(*state));
  bus_->refuse(request, Error(ErrorCode::not_exist, self_.to_string() + ": there is no actor " +
                                                        cut_text(message.name()->str(), 80) + "[" +
                                                        std::to_string(message.pid()) + "]"));
}

void ActorSystem::on_get(const Request& request, const wire::GetActorState& message) {
  std::optional<wire::ActorStateT> state;
  {
    const Lock lock(mutex_);
    if (const auto cell = find({message.name()->str(), message.pid()})) state = state_of(*cell);
  }
  if (state) return bus_->answer(request, std::move(*state));
  bus_->refuse(request, Error(ErrorCode::not_exist, self_.to_string() + ": there is no actor " +
                                                        cut_text(message.name()->str(), 80) + "[" +
                                                        std::to_string(message.pid()) + "]"));
}

void ActorSystem::on_list(const Request& request, const wire::ListActors& message) {
  wire::ActorListT list;
  {
    const Lock lock(mutex_);
    auto at = message.after() == nullptr
                  ? cells_.begin()
                  : cells_.upper_bound({message.after()->str(), message.after_pid()});
    for (std::size_t bytes = 0; at != cells_.end() && bytes < kListBytes; ++at) {
      list.actors.push_back(std::make_unique<wire::ActorStateT>(state_of(*at->second)));
      bytes += text_bytes(*list.actors.back());
    }
    list.more = at != cells_.end();
  }
  bus_->answer(request, std::move(list));
}

void ActorSystem::subscribe(const std::string& name, const ProcId& subscriber) {
  subscribers_.try_emplace(subscriber.key(), Subscriber{subscriber, {}})
      .first->second.names.insert(name);
}

std::optional<ProcId> ActorSystem::subscriber_of(const Request& request,
                                                 const flatbuffers::String& text) {
  const auto subscriber = ProcId::parse(text.string_view());
  if (!subscriber) {
    bus_->refuse(request, subscriber.error().within("subscriber"));
    return std::nullopt;
  }
  if (subscriber->key() == request.envelope.source_proc() &&
      subscriber->host().key() == request.envelope.source_host())
    return *subscriber;
  bus_->refuse(request, Error(ErrorCode::identity_mismatch,
                              "subscriber: '" + subscriber->to_string() +
                                  "' is not who asks: one can subscribe for oneself only"));
  return std::nullopt;
}

void ActorSystem::on_stream(const Request& request, const wire::StreamActors& message) {
  const auto subscriber = subscriber_of(request, *message.subscriber());
  if (!subscriber) return;
  const auto name = Name::parse(message.name()->string_view());
  if (!name) return bus_->refuse(request, name.error());
  const auto known = subscribers_.find(subscriber->key());
  if (known == subscribers_.end() ? subscribers_.size() >= kMostSubscribers
                                  : known->second.names.size() >= kMostStreams) {
    return bus_->refuse(request,
                        Error(ErrorCode::queue_full,
                              self_.to_string() + ": at most " + std::to_string(kMostSubscribers) +
                                  " subscribers, each to " + std::to_string(kMostStreams) +
                                  " actors: end others with StopActorStream"));
  }
  wire::ActorListT list;
  {
    const Lock lock(mutex_);
    std::size_t bytes = 0;
    for (auto at = cells_.lower_bound({name->to_string(), 0});
         at != cells_.end() && at->first.first == name->to_string(); ++at) {
      list.more = bytes >= kListBytes;
      if (list.more) break;
      list.actors.push_back(std::make_unique<wire::ActorStateT>(state_of(*at->second)));
      bytes += text_bytes(*list.actors.back());
    }
  }
  subscribe(name->to_string(), *subscriber);
  bus_->answer(request, std::move(list));
}

void ActorSystem::on_stop_stream(const Request& request, const wire::StopActorStream& message) {
  const auto subscriber = subscriber_of(request, *message.subscriber());
  if (!subscriber) return;
  const auto found = subscribers_.find(subscriber->key());
  if (found != subscribers_.end()) {
    found->second.names.erase(message.name()->str());
    if (found->second.names.empty()) subscribers_.erase(found);
  }
  bus_->answer(request, wire::AckT());
}

void ActorSystem::on_undelivered(const wire::Envelope& envelope) {
  subscribers_.erase(envelope.destination_proc());
}

void ActorSystem::tell_changes() {
  struct Answer {
    Request request;
    wire::ActorStateT state;
    bool is_refusal;
  };
  std::vector<std::pair<std::string, wire::ActorStateT>> states;
  std::vector<Answer> answers;
  {
    const Lock lock(mutex_);
    for (const auto& cell : std::exchange(changed_, {})) {
      cell->is_changed = false;
      states.emplace_back(cell->id.name().to_string(), state_of(*cell));
      if (cell->life.status() != Status::Kind::initializing) {
        for (auto& request : std::exchange(cell->spawn_waiters, {}))
          answers.push_back({request, states.back().second, !cell->has_run});
      }
      if (cell->life.is_ended()) {
        for (auto& request : std::exchange(cell->stop_waiters, {}))
          answers.push_back({request, states.back().second, false});
      }
    }
  }
  if (bus_ == nullptr) return;
  for (auto& [key, subscriber] : subscribers_) {
    wire::ActorEventT event;
    const auto tell = [&] {
      if (!event.actors.empty())
        bus_->tell(Destination::to(subscriber.id), std::exchange(event, {}));
    };
    for (const auto& [name, state] : states) {
      if (!subscriber.names.contains(name)) continue;
      event.actors.push_back(std::make_unique<wire::ActorStateT>(state));
      if (event.actors.size() == kEventStates) tell();
    }
    tell();
    // A name is used once, so nothing follows the end of its first actor.
    for (const auto& [name, state] : states) {
      if (state.pid == 0 && is_end(state.status)) subscriber.names.erase(name);
    }
  }
  std::erase_if(subscribers_, [](const auto& entry) { return entry.second.names.empty(); });
  for (auto& [request, state, is_refusal] : answers) {
    if (is_refusal) {
      std::string text = "actor " + self_.to_string() + "," + state.name + "[0]: " + state.reason;
      for (const auto& cause : state.causes) text += "; because: " + cause;
      bus_->refuse(request, Error(ErrorCode::actor_spawn_error, std::move(text)));
    } else {
      bus_->answer(request, std::move(state));
    }
  }
}

}  // namespace meshbus::mesh_proc

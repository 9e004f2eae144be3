#include "agent/proc/actors/actor_requests.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "agent/proc/actors/actor_system.h"
#include "common/wire/control.h"
#include "wire/actors_generated.h"
#include "wire/bus_generated.h"

namespace meshbus::mesh_proc {
namespace {

/// Bytes of text in a list after which no more is added.
constexpr std::size_t kListBytes = 512 * 1024;

std::size_t text_bytes(const wire::ActorStateT& state) {
  std::size_t bytes =
      256 + state.name.size() + state.type.size() + state.reason.size() + state.message.size();
  for (const auto& cause : state.causes) bytes += 16 + cause.size();
  return bytes;
}

/// With the lock held.
wire::ActorStateT state_of(const ActorCell& cell) {
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

}  // namespace

void ActorRequests::add_handlers(Dispatcher& handlers) {
  handlers.on<wire::SpawnActor>(Role::operate, std::bind_front(&ActorRequests::on_spawn, this))
      .on<wire::StopActor>(Role::operate, std::bind_front(&ActorRequests::on_stop, this))
      .on<wire::GetActorState>(Role::observe, std::bind_front(&ActorRequests::on_get, this))
      .on<wire::ListActors>(Role::observe, std::bind_front(&ActorRequests::on_list, this))
      .on<wire::StreamActors>(Role::observe, std::bind_front(&ActorRequests::on_stream, this))
      .on<wire::StopActorStream>(Role::observe,
                                 std::bind_front(&ActorRequests::on_stop_stream, this));
}

void ActorRequests::on_spawn(const Request& request, const wire::SpawnActor& message) {
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
    const auto lock = system_.lock();
    auto cell = system_.table().find({name->to_string(), 0});
    if (cell == nullptr) {
      auto made = system_.make(type, *name, 0, std::move(params));
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
  if (owner) subscribers_.add(name->to_string(), *owner);
  if (state) bus_->answer(request, std::move(*state));
}

void ActorRequests::on_stop(const Request& request, const wire::StopActor& message) {
  std::optional<wire::ActorStateT> state;
  {
    const auto lock = system_.lock();
    const auto cell = system_.table().find({message.name()->str(), message.pid()});
    if (cell != nullptr && cell->life.is_ended() && !cell->is_changed) {
      state = state_of(*cell);
    } else if (cell != nullptr) {
      cell->stop_waiters.push_back(request);
      system_.begin_stop(*cell, cut_text(text_of(message.reason()), 1024),
                         ActorSystem::Clock::now() + std::chrono::milliseconds(message.grace_ms()));
      return;
    }
  }
  if (state) return bus_->answer(request, std::move(*state));
  refuse_unknown(request, message.name()->str(), message.pid());
}

void ActorRequests::on_get(const Request& request, const wire::GetActorState& message) {
  std::optional<wire::ActorStateT> state;
  {
    const auto lock = system_.lock();
    if (const auto cell = system_.table().find({message.name()->str(), message.pid()}))
      state = state_of(*cell);
  }
  if (state) return bus_->answer(request, std::move(*state));
  refuse_unknown(request, message.name()->str(), message.pid());
}

void ActorRequests::refuse_unknown(const Request& request, const std::string& name,
                                   std::uint64_t pid) {
  bus_->refuse(request, Error(ErrorCode::not_exist, self_.to_string() + ": there is no actor " +
                                                        cut_text(name, 80) + "[" +
                                                        std::to_string(pid) + "]"));
}

void ActorRequests::on_list(const Request& request, const wire::ListActors& message) {
  wire::ActorListT list;
  {
    const auto lock = system_.lock();
    const auto& cells = system_.table().all();
    auto at = message.after() == nullptr
                  ? cells.begin()
                  : cells.upper_bound({message.after()->str(), message.after_pid()});
    for (std::size_t bytes = 0; at != cells.end() && bytes < kListBytes; ++at) {
      list.actors.push_back(std::make_unique<wire::ActorStateT>(state_of(*at->second)));
      bytes += text_bytes(*list.actors.back());
    }
    list.more = at != cells.end();
  }
  bus_->answer(request, std::move(list));
}

std::optional<ProcId> ActorRequests::subscriber_of(const Request& request,
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

void ActorRequests::on_stream(const Request& request, const wire::StreamActors& message) {
  const auto subscriber = subscriber_of(request, *message.subscriber());
  if (!subscriber) return;
  const auto name = Name::parse(message.name()->string_view());
  if (!name) return bus_->refuse(request, name.error());
  if (!subscribers_.has_room(*subscriber)) {
    return bus_->refuse(
        request, Error(ErrorCode::queue_full,
                       self_.to_string() + ": at most " +
                           std::to_string(ActorSubscribers::kMostSubscribers) +
                           " subscribers, each to " + std::to_string(ActorSubscribers::kMostNames) +
                           " actors: end others with StopActorStream"));
  }
  wire::ActorListT list;
  {
    const auto lock = system_.lock();
    const auto& cells = system_.table().all();
    std::size_t bytes = 0;
    for (auto at = cells.lower_bound({name->to_string(), 0});
         at != cells.end() && at->first.first == name->to_string(); ++at) {
      list.more = bytes >= kListBytes;
      if (list.more) break;
      list.actors.push_back(std::make_unique<wire::ActorStateT>(state_of(*at->second)));
      bytes += text_bytes(*list.actors.back());
    }
  }
  subscribers_.add(name->to_string(), *subscriber);
  bus_->answer(request, std::move(list));
}

void ActorRequests::on_stop_stream(const Request& request, const wire::StopActorStream& message) {
  const auto subscriber = subscriber_of(request, *message.subscriber());
  if (!subscriber) return;
  subscribers_.remove(message.name()->str(), *subscriber);
  bus_->answer(request, wire::AckT());
}

void ActorRequests::tell_changes() {
  struct Answer {
    Request request;
    wire::ActorStateT state;
    bool is_refusal;
  };
  std::vector<wire::ActorStateT> states;
  std::vector<Answer> answers;
  {
    const auto lock = system_.lock();
    for (const auto& cell : system_.take_changed()) {
      cell->is_changed = false;
      states.push_back(state_of(*cell));
      if (cell->life.status() != Status::Kind::initializing) {
        for (auto& request : std::exchange(cell->spawn_waiters, {}))
          answers.push_back({request, states.back(), !cell->has_run});
      }
      if (cell->life.is_ended()) {
        for (auto& request : std::exchange(cell->stop_waiters, {}))
          answers.push_back({request, states.back(), false});
      }
    }
  }
  if (bus_ == nullptr) return;
  for (auto& [subscriber, event] : subscribers_.on_changes(states))
    bus_->tell(Destination::to(subscriber), std::move(event));
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

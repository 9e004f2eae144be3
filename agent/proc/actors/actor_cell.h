#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/proc/actors/actor_life.h"
#include "agent/proc/actors/actor_pool.h"
#include "agent/proc/actors/mailbox.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "meshbus/actor.h"

namespace meshbus::mesh_proc {

class ActorSystem;

/// The messages that an actor has handlers for, by key (MessageType::key()), and their names.
using MessageNames = std::map<std::uint64_t, std::string>;

/// One actor, and all that belongs to it.
/// Large because: it is a plain record, in which each field is grouped with those that are used by
/// the same threads.
struct ActorCell : ActorPool::Runnable, std::enable_shared_from_this<ActorCell> {
  using Time = std::chrono::steady_clock::time_point;
  /// Something that is no message: an answer that it waits for, a child that has failed.
  struct Task {
    /// For the report when it throws.
    std::string name;
    /// What has gone wrong, if anything, and was not thrown.
    std::function<std::optional<Fault>(Actor&, ActorContext&)> run;
  };

  ActorCell(ActorSystem& owner, ActorId actor_id, std::string type, Mailbox::Limits limits)
      : system(owner),
        id(std::move(actor_id)),
        type_name(std::move(type)),
        context(owner, *this),
        mailbox(limits),
        life(std::chrono::system_clock::now()) {}
  void run() override;
  /// With the lock held.
  bool has_live_children() const {
    return std::any_of(children.begin(), children.end(),
                       [](const auto& child) { return !child->life.is_ended(); });
  }

  // Does not change.
  ActorSystem& system;
  const ActorId id;
  const std::string type_name;
  std::string params;
  std::uint64_t rank = 0;
  std::uint32_t port = 0;
  std::shared_ptr<ActorCell> parent = {};

  // Used by the thread that runs it; one at a time.
  std::unique_ptr<Actor> actor = {};
  ActorContext context;
  const Letter* current = nullptr;
  bool is_deferred = false;

  // Guarded by the system's mutex.
  Mailbox mailbox;
  std::deque<Task> tasks = {};
  ActorLife life;
  std::vector<std::shared_ptr<ActorCell>> children = {};
  /// Waits for a thread, or has one.
  bool is_scheduled = false;
  /// What it is doing, and since when.
  std::optional<std::pair<std::string, Time>> busy = {};
  /// No letter is handled any more, only the rest.
  bool is_closing = false;
  std::optional<Time> stop_end = {};
  /// Its constructor has returned.
  bool has_run = false;
  /// What it has handlers for, as it has said by now; null: its constructor runs still.
  std::shared_ptr<const MessageNames> messages = {};
  std::uint64_t handled = 0;
  std::uint64_t dropped = 0;
  std::size_t delayed = 0;
  bool is_changed = false;

  // Used by the reactor's thread.
  std::vector<Request> spawn_waiters = {};
  std::vector<Request> stop_waiters = {};
  std::map<std::uint64_t, Reactor::TimerId> timers = {};
  Reactor::TimerId stop_timer = 0;
  unsigned stop_rounds = 0;
};

}  // namespace meshbus::mesh_proc

#include "agent/proc/actors/actor_subscribers.h"

#include <memory>

namespace meshbus::mesh_proc {
namespace {

bool is_end(wire::StatusKind status) {
  return status == wire::StatusKind::stopped || status == wire::StatusKind::failed;
}

}  // namespace

bool ActorSubscribers::has_room(const ProcId& subscriber) const {
  const auto known = subscribers_.find(subscriber.key());
  return known == subscribers_.end() ? subscribers_.size() < kMostSubscribers
                                     : known->second.names.size() < kMostNames;
}

void ActorSubscribers::add(const std::string& name, const ProcId& subscriber) {
  subscribers_.try_emplace(subscriber.key(), Subscriber{subscriber, {}})
      .first->second.names.insert(name);
}

void ActorSubscribers::remove(const std::string& name, const ProcId& subscriber) {
  const auto found = subscribers_.find(subscriber.key());
  if (found == subscribers_.end()) return;
  found->second.names.erase(name);
  if (found->second.names.empty()) subscribers_.erase(found);
}

std::vector<ActorSubscribers::Event> ActorSubscribers::on_changes(
    const std::vector<wire::ActorStateT>& states) {
  std::vector<Event> events;
  for (auto& [key, subscriber] : subscribers_) {
    bool is_full = true;
    for (const auto& state : states) {
      if (!subscriber.names.contains(state.name)) continue;
      if (is_full) events.emplace_back(subscriber.id, wire::ActorEventT());
      auto& actors = events.back().second.actors;
      actors.push_back(std::make_unique<wire::ActorStateT>(state));
      is_full = actors.size() == kEventStates;
    }
    for (const auto& state : states) {
      if (state.pid == 0 && is_end(state.status)) subscriber.names.erase(state.name);
    }
  }
  std::erase_if(subscribers_, [](const auto& entry) { return entry.second.names.empty(); });
  return events;
}

}  // namespace meshbus::mesh_proc

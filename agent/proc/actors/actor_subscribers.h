#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/address.h"
#include "wire/actors_generated.h"

namespace meshbus::mesh_proc {

/// The launchers that hear of the actors of one proc, and of which names. Pure.
class ActorSubscribers {
 public:
  static constexpr std::size_t kMostSubscribers = 1024;
  /// The names of one subscriber that it did not spawn itself.
  static constexpr std::size_t kMostNames = 4096;
  /// States in one message: one has 25 KiB at most.
  static constexpr std::size_t kEventStates = 32;
  /// A message, and the subscriber that it is for.
  using Event = std::pair<ProcId, wire::ActorEventT>;

  /// Whether that subscriber may name one more.
  bool has_room(const ProcId& subscriber) const;
  void add(const std::string& name, const ProcId& subscriber);
  void remove(const std::string& name, const ProcId& subscriber);
  /// It is gone, by its key.
  void forget(std::uint64_t subscriber) { subscribers_.erase(subscriber); }
  /// What to tell of these changes, in their order. A name is used once, so nothing follows the end
  /// of its first actor: nobody is subscribed to that name any more.
  std::vector<Event> on_changes(const std::vector<wire::ActorStateT>& states);

 private:
  struct Subscriber {
    ProcId id;
    std::set<std::string> names;
  };
  std::map<std::uint64_t, Subscriber> subscribers_;
};

}  // namespace meshbus::mesh_proc

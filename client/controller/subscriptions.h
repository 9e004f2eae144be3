#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/mesh_watch.h"
#include "meshbus/address.h"

namespace meshbus {

/// Who wants to hear of which mesh. A set: subscribing twice changes nothing. Pure.
class Subscriptions {
 public:
  /// An empty mesh stands for all. False when it was there already.
  bool add(const ProcId& subscriber, const std::string& mesh) { return set_.emplace(subscriber, mesh).second; }
  bool remove(const ProcId& subscriber, const std::string& mesh) { return set_.erase({subscriber, mesh}) != 0; }
  /// All subscriptions of the proc of that key: it cannot be reached any more.
  bool drop(std::uint64_t proc_key) {
    return std::erase_if(set_, [proc_key](const auto& entry) { return entry.first.key() == proc_key; }) != 0;
  }
  std::size_t size() const noexcept { return set_.size(); }
  /// Everyone who hears something.
  std::set<ProcId> subscribers() const {
    std::set<ProcId> all;
    for (const auto& [subscriber, mesh] : set_) all.insert(subscriber);
    return all;
  }
  /// Those of the events that a subscriber is to hear, each once however often it subscribed.
  std::vector<WatchEvent> for_subscriber(const ProcId& subscriber, const std::vector<WatchEvent>& events) const {
    std::vector<WatchEvent> chosen;
    for (const auto& event : events) {
      if (set_.contains({subscriber, std::string()}) || set_.contains({subscriber, event.mesh})) chosen.push_back(event);
    }
    return chosen;
  }

 private:
  std::set<std::pair<ProcId, std::string>> set_;
};

}  // namespace meshbus

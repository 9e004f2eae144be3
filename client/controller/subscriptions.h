#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/controller/actors_name.h"
#include "client/controller/watch_event.h"
#include "meshbus/address.h"
#include "meshbus/rank_report.h"

namespace meshbus {

/// Which subscriber hears of which mesh, and of which ranks of it. A set: subscribing twice changes
/// nothing. Pure.
class Subscriptions {
 public:
  /// An empty mesh means all; so does an empty set of ranks. False when it was there already, with
  /// the same ranks.
  bool add(const ProcId& subscriber, const std::string& mesh, const RankSet& ranks = {}) {
    auto& meshes = subscribers_[subscriber].meshes;
    const auto [found, is_new] = meshes.try_emplace(mesh, ranks);
    if (is_new) ++size_;
    return is_new || std::exchange(found->second, ranks) != ranks;
  }
  bool remove(const ProcId& subscriber, const std::string& mesh) {
    const auto found = subscribers_.find(subscriber);
    if (found == subscribers_.end() || found->second.meshes.erase(mesh) == 0) return false;
    --size_;
    if (found->second.meshes.empty()) subscribers_.erase(found);
    return true;
  }
  /// All subscriptions of the proc of that key: it cannot be reached any more.
  bool drop(std::uint64_t proc_key) {
    return std::erase_if(subscribers_, [&](const auto& entry) {
             if (entry.first.key() != proc_key) return false;
             size_ -= entry.second.meshes.size();
             return true;
           }) != 0;
  }
  std::size_t size() const noexcept { return size_; }
  bool has(const ProcId& subscriber, const std::string& mesh) const {
    const auto found = subscribers_.find(subscriber);
    return found != subscribers_.end() && found->second.meshes.contains(mesh);
  }
  /// How many subscriptions that one has.
  std::size_t count_of(const ProcId& subscriber) const {
    const auto found = subscribers_.find(subscriber);
    return found == subscribers_.end() ? 0 : found->second.meshes.size();
  }
  /// How many subscribers hear of that mesh (empty = of anything).
  std::uint64_t count(const std::string& mesh) const {
    return static_cast<std::uint64_t>(std::count_if(
        subscribers_.begin(), subscribers_.end(),
        [&](const auto& entry) { return mesh.empty() || hears_of(entry.second.meshes, mesh); }));
  }
  /// All subscribers.
  std::vector<ProcId> subscribers() const {
    std::vector<ProcId> all;
    for (const auto& [subscriber, state] : subscribers_) all.push_back(subscriber);
    return all;
  }
  bool hears_of(const ProcId& subscriber, const std::string& mesh) const {
    const auto found = subscribers_.find(subscriber);
    return found != subscribers_.end() && hears_of(found->second.meshes, mesh);
  }
  /// Those of the events that a subscriber is to hear, each once however often it subscribed.
  std::vector<WatchEvent> for_subscriber(const ProcId& subscriber,
                                         const std::vector<WatchEvent>& events) const {
    const auto found = subscribers_.find(subscriber);
    std::vector<WatchEvent> chosen;
    if (found == subscribers_.end()) return chosen;
    for (const auto& event : events) {
      if (is_for(found->second.meshes, event)) chosen.push_back(event);
    }
    return chosen;
  }
  /// Numbers what is sent to a subscriber.
  std::uint64_t next_sequence(const ProcId& subscriber) {
    return ++subscribers_.at(subscriber).sequence;
  }
  std::uint64_t sequence(const ProcId& subscriber) const {
    return subscribers_.at(subscriber).sequence;
  }

 private:
  using Meshes = std::map<std::string, RankSet>;
  struct State {
    std::uint64_t sequence = 0;
    Meshes meshes;
  };
  /// "Every mesh" means every mesh of procs: actors are watched for subscribers that name them.
  static bool hears_of(const Meshes& meshes, const std::string& mesh) {
    return meshes.contains(mesh) || (meshes.contains(std::string()) && !ActorsName::is_meant(mesh));
  }
  static bool is_for(const Meshes& meshes, const WatchEvent& event) {
    const bool hears_all = meshes.contains(std::string()) && !ActorsName::is_meant(event.mesh);
    const bool is_of_host = event.kind == WatchEvent::Kind::host_unreachable ||
                            event.kind == WatchEvent::Kind::host_back;
    // A subscriber to every mesh gets the event of a host once; the others get it for each of its
    // meshes.
    if (event.mesh.empty() || (hears_all && is_of_host)) return hears_all && event.mesh.empty();
    const auto found = meshes.find(event.mesh);
    if (hears_all) return true;
    if (found == meshes.end()) return false;
    return !event.is_of_rank() || found->second.empty() ||
           contains(found->second, event.rank.rank());
  }

  std::map<ProcId, State> subscribers_;
  std::size_t size_ = 0;
};

}  // namespace meshbus

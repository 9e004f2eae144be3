#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/address.h"

namespace meshbus {

/// The spare hosts of one mesh: which of them takes the place of which lost host, and when nothing
/// runs on a lost host any more (docs/decisions/0068-ranks-of-a-lost-host-move-to-a-spare.md).
/// Pure: the time is an argument.
class SpareHosts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A lost host and the spare that is to take its place.
  using Pair = std::pair<HostAddr, HostAddr>;

  /// `spares`: best first. `silence`: what a host runs that was given up, and is only silent, has
  /// ended so much later; nothing: only a proof says so.
  SpareHosts(std::vector<HostAddr> spares, std::optional<std::chrono::milliseconds> silence)
      : spares_(std::move(spares)), silence_(silence) {}

  /// The host is lost: no rank is started there again. `is_proved`: nothing runs there any more.
  /// Ranks that were to move there need another spare.
  void lose(const HostAddr& host, const std::string& reason, bool is_proved, Time now);
  /// It is there again, and gets ranks by another way.
  void take_back(const HostAddr& host) { losses_.erase(host); }
  bool is_lost(const HostAddr& host) const { return losses_.contains(host); }
  /// How it was lost; empty: it is not.
  std::string reason_of(const HostAddr& host) const;
  /// When nothing of the mesh runs on that host any more: in the past when it is not lost, and
  /// Time::max() when only a proof would say so.
  Time clear_at(const HostAddr& host) const;

  /// Ranks of that lost host are to move.
  void want(const HostAddr& lost);
  /// Whether a spare can still be found for it, or is found.
  bool has_hope(const HostAddr& lost) const;
  /// The spares that are to be asked now whether they can take ranks, each once: confirm() or
  /// reject() follows.
  std::vector<Pair> take_questions();
  void confirm(const Pair& pair);
  void reject(const Pair& pair);
  /// The spare that is known to take the ranks of that lost host; nothing: not yet.
  std::optional<HostAddr> spare_for(const HostAddr& lost) const;
  /// The spare has the place of the lost host in the mesh from now on.
  void place(const HostAddr& lost);

 private:
  struct Loss {
    Time clear_at{};
    std::string reason = {};
    bool is_wanted = false;
    std::optional<HostAddr> spare = {};
    bool is_confirmed = false;
    bool is_placed = false;
  };

  std::optional<HostAddr> next() const;

  std::vector<HostAddr> spares_;
  std::optional<std::chrono::milliseconds> silence_;
  std::map<HostAddr, Loss> losses_;
  /// Spares that have a place in the mesh, or are to get one, and those that refused.
  std::set<HostAddr> taken_;
};

}  // namespace meshbus

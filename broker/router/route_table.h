#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "broker/access/recent_set.h"
#include "broker/peers/peer.h"
#include "meshbus/result.h"

namespace meshbus {

/// Which proc of this host is reached through which peer, and what is remembered of those that
/// left. Pure: it holds no socket, and does not own the peers.
class RouteTable {
 public:
  /// `gone_limit`: how many procs that left are remembered, and how many incarnations that
  /// were superseded. `gone_guests_limit`: how many launchers of observers and clients.
  explicit RouteTable(std::size_t gone_limit = 16384, std::size_t gone_guests_limit = 1024)
      : gone_(gone_limit), gone_guests_(gone_guests_limit), superseded_(gone_limit) {}

  /// Whether such a peer may come in, next to or instead of the one that is there. Errors:
  /// identity_mismatch (its key belongs to another text, the name is in use, or a later incarnation
  /// of that proc has registered).
  Result<void> may_add(const Identity& identity) const;
  /// Routes to `peer` from now on. The peer whose place it took, if any: no longer routed to.
  Peer* add(Peer& peer);
  /// Stops routing to `peer`; its proc counts as gone. Nothing happens when another peer has taken
  /// its place.
  void remove(const Peer& peer);

  /// The peer of that proc, or null.
  Peer* find(std::uint64_t proc) const {
    // A run of messages mostly has one receiver.
    if (last_ != nullptr && proc == last_proc_) return last_;
    const auto found = peers_.find(proc);
    if (found == peers_.end()) return nullptr;
    last_proc_ = proc;
    return last_ = found->second;
  }
  /// Whether that proc is registered.
  bool has(std::uint64_t proc) const { return peers_.contains(proc); }
  /// The text of a proc that was here and left not long ago, or null.
  const std::string* find_gone(std::uint64_t proc) const {
    const Gone* gone = recall(proc);
    return gone == nullptr ? nullptr : &gone->text;
  }
  /// Forgets the launchers of observers and clients that had left by the last call.
  void forget_guests() { gone_guests_.forget_older(); }
  std::size_t size() const noexcept { return peers_.size(); }

 private:
  struct Gone {
    std::string text;
    std::string user;
  };
  struct Incarnation {
    std::uint64_t proc;
    std::uint64_t number;
    bool operator==(const Incarnation&) const = default;
  };
  struct IncarnationHash {
    std::size_t operator()(const Incarnation& one) const noexcept {
      return static_cast<std::size_t>(one.proc ^ (one.number * 0x9e3779b97f4a7c15U));
    }
  };

  /// Or null.
  const Gone* recall(std::uint64_t proc) const {
    const Gone* gone = gone_.find(proc);
    return gone != nullptr ? gone : gone_guests_.find(proc);
  }

  std::unordered_map<std::uint64_t, Peer*> peers_;
  /// What find() found last; null after every change.
  mutable std::uint64_t last_proc_ = 0;
  mutable Peer* last_ = nullptr;
  RecentSet<std::uint64_t, Gone> gone_;
  /// Launchers of observers and clients, which come and go as often as they like, and displace no
  /// others here.
  RecentSet<std::uint64_t, Gone> gone_guests_;
  /// Incarnations that a later one of the same proc replaced: they must not come back.
  RecentSet<Incarnation, char, IncarnationHash> superseded_;
};

}  // namespace meshbus

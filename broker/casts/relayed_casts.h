#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "common/base/message_part.h"

namespace meshbus {

/// A share of a list of hosts: the first of them gets what is cast, and the rest of the share to
/// pass it on to.
struct CastBranch {
  std::size_t first;
  std::size_t count;
  bool operator==(const CastBranch&) const = default;
};
/// Shares a list of so many hosts out among `width` of them, as evenly as can be. Done again for
/// the rest of each share, it makes a tree that has every host once. Pure.
std::vector<CastBranch> cast_branches(std::size_t hosts, std::size_t width);

/// The sender's side of casts by a tree of hosts (relay.fbs): the bodies on their way, and the
/// hosts that have not confirmed them. A host that the tree does not reach gets the body directly,
/// and for a while later bodies, too. Pure: the time comes from the caller.
class RelayedCasts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// When neither this cast nor an older one gets on for so long, a host does not pass it on.
  static constexpr std::chrono::milliseconds kStalled{1000};
  /// A host that the tree did not reach is sent bodies directly for so long.
  static constexpr std::chrono::minutes kDirect{10};
  struct Limits {
    /// All bodies together may have so many.
    std::size_t bytes;
    /// From the cast to giving up.
    std::chrono::milliseconds limit;
  };
  /// Sends the body to that host. False when that must be tried again.
  using Send = std::function<bool(std::uint64_t host, std::uint64_t number, MessagePart& body)>;

  explicit RelayedCasts(Limits limits) : limits_(limits) {}

  bool has_room(std::size_t bytes) const noexcept {
    return casts_.empty() || bytes_ + bytes <= limits_.bytes;
  }
  /// Whether the tree reached that host lately, as far as is known.
  bool is_reached(std::uint64_t host, Time now) const;
  void add(std::uint64_t number, MessagePart body, std::vector<std::uint64_t> hosts, Time now);
  /// Whether the body is on its way to that host.
  bool is_under_way(std::uint64_t number, std::uint64_t host) const;
  /// The host has confirmed the body.
  void here(std::uint64_t number, std::uint64_t host, Time now);
  /// Sends directly what does not get on, and forgets what has taken too long.
  void look(Time now, const Send& send);
  bool empty() const noexcept { return casts_.empty(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Cast {
    std::uint64_t number;
    MessagePart body;
    /// Hosts that have not confirmed the body.
    std::vector<std::uint64_t> hosts;
    Time began;
    Time progress;
  };
  Cast* find(std::uint64_t number);
  void drop_done();

  Limits limits_;
  /// Oldest first.
  std::deque<Cast> casts_;
  std::unordered_map<std::uint64_t, Time> direct_until_;
  std::size_t bytes_ = 0;
};

}  // namespace meshbus

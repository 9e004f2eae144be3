#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/src/restart/restarter.h"
#include "meshbus/rank_report.h"

namespace meshbus {

/// Carries a restart policy out for a mesh that has come to a controller: what follows from the
/// ends of its ranks, in words for subscribers and in orders for hosts
/// (docs/decisions/0051-restarts-go-with-the-mesh.md). Pure.
class MeshRestarts {
 public:
  using Time = Restarter::Time;
  /// Something to say, once.
  struct Notice {
    bool is_given_up = false;
    /// The rank that has ended.
    std::uint64_t cause = 0;
    /// Those that begin another incarnation, or do not.
    RankSet ranks;
    std::string words;
  };
  struct Stop {
    std::vector<std::uint64_t> ranks;
    std::uint64_t cause = 0;
    std::string why;
  };
  struct Outcome {
    std::vector<Notice> notices;
    /// Live ranks that end because another one has ended.
    std::vector<Stop> stops;
    /// Ranks that begin another incarnation now, and after how many restarts.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> starts;
    /// Ranks that begin none: what was ordered for them is void.
    std::vector<std::uint64_t> cancelled;
  };

  MeshRestarts(RestartPlan plan, std::uint64_t ranks, std::uint64_t seed);

  /// What is known when the controller comes to answer for the mesh: the last ends, the earliest
  /// first, and how often each live rank was restarted. An owner before may have left a restart
  /// half done.
  Outcome begin(std::vector<RankReport> ended, std::map<std::uint64_t, std::uint64_t> live,
                Time now);
  /// A rank has ended, with its exit report. Once for each end.
  Outcome on_end(const RankReport& end, Time now);
  /// A live rank is known to be in that incarnation. One that begins after its gang was given up
  /// is stopped.
  Outcome on_live(std::uint64_t rank, std::uint64_t restarts);
  /// The host cannot restart the rank.
  Outcome on_refused(std::uint64_t rank, const std::string& why, Time now);
  /// These ranks (empty = all) begin no other incarnation. Of those that wait for one it is told.
  Outcome stop(const RankSet& ranks);
  Outcome turn(Time now);
  std::optional<Time> next_due() const { return restarter_.next_due(); }

  /// Whether that rank, which has ended, begins another incarnation.
  bool is_waiting(std::uint64_t rank) const {
    return restarter_.is_waiting(rank) || starting_.contains(rank);
  }
  /// Whether some rank lives, or is to.
  bool is_over() const { return live_.empty() && starting_.empty() && !restarter_.is_busy(); }
  /// With what is used of the budget by incarnations that have begun.
  RestartPlan plan(Time now) const;
  const std::vector<Notice>& given_up() const noexcept { return given_up_; }

 private:
  /// Whether an owner before has restarted others of its gang since that end.
  bool is_half_done(const RankReport& end,
                    const std::map<std::uint64_t, std::uint64_t>& live) const;
  void take(Outcome& outcome, Restarter::Actions actions);
  void give_up(Outcome& outcome, std::uint64_t rank, const std::string& why);
  /// Somebody has stopped these ranks, which would have begun another incarnation.
  void tell_stopped(Outcome& outcome, std::vector<std::uint64_t> ranks);
  std::string budget_words() const;

  Restarter restarter_;
  std::uint64_t size_;
  /// The last end of each rank that has ended, and is not ordered to begin another incarnation.
  std::map<std::uint64_t, RankReport> ended_;
  /// Live ranks, and those that are not known yet.
  std::map<std::uint64_t, std::uint64_t> live_;
  /// Ordered to begin an incarnation: rank -> its restarts.
  std::map<std::uint64_t, std::uint64_t> starting_;
  /// Why the gang begins no other incarnation, with the rank that is the cause.
  std::optional<Stop> gang_stop_;
  /// Ranks whose end was for good and was told so.
  std::vector<Notice> given_up_;
  bool is_stopped_ = false;
};

}  // namespace meshbus

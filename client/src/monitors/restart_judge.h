#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/src/monitors/rank_table.h"
#include "client/src/restart/restarter.h"
#include "client/src/restart/spare_hosts.h"
#include "meshbus/proc_mesh.h"

namespace meshbus {

/// What follows from the ends of ranks in a mesh with a RestartPolicy: feeds a Restarter from the
/// RankTable and writes its decisions into the table. Pure: no clock, socket or thread.
class RestartJudge {
 public:
  using Time = RankTable::Time;
  /// Ranks of a lost host that begin an incarnation on a spare.
  struct Move {
    HostAddr from;
    /// The host that has their place in the mesh; `to` when an earlier move has changed that.
    HostAddr place;
    HostAddr to;
    /// How `from` was lost.
    std::string reason;
    std::vector<std::uint64_t> ranks = {};
  };
  struct Judgement {
    /// Failures that are final.
    std::vector<RankReport> failures;
    /// Restarts that were decided, for on_restart.
    std::vector<RestartReport> restarts;
    /// Ranks to stop, each set because of the rank that has failed.
    std::vector<std::pair<std::vector<std::uint64_t>, RankReport>> stops;
    /// Ranks whose next incarnation begins now.
    std::vector<std::uint64_t> starts;
    /// The same, on another host than the one before.
    std::vector<Move> moves = {};
    /// Spares that are to be asked whether they can take the ranks of a lost host.
    std::vector<SpareHosts::Pair> questions = {};
  };

  RestartJudge(RestartPolicy policy, std::uint64_t ranks, std::uint64_t seed)
      : budget_(policy.budget), restarter_(policy, ranks, seed) {}
  /// Goes on with what owners before have used.
  RestartJudge(const RestartPlan& plan, std::uint64_t ranks, std::uint64_t seed)
      : budget_(plan.policy.budget), restarter_(plan, ranks, seed) {}

  /// Ranks of lost hosts move to these.
  void set_spares(SpareHosts spares) { spares_ = std::move(spares); }
  bool has_spares() const noexcept { return spares_.has_value(); }
  SpareHosts& spares() { return *spares_; }
  const SpareHosts& spares() const { return *spares_; }
  /// A host is lost, which may be one of the spares: see SpareHosts.
  void lose_host(const RankTable& table, const HostAddr& host, const std::string& reason,
                 bool is_proved, Time now);

  /// The rank has ended without a failure: judge() takes it into account.
  void note_end(std::uint64_t rank) { unjudged_.insert(rank); }
  /// `failures`: those that the table has handed out since the last call.
  Judgement judge(RankTable& table, const std::vector<RankReport>& failures, Time now);
  /// These ranks (empty = all) begin no other incarnation.
  void stop(RankTable& table, const RankSet& ranks);
  /// The mesh has so many ranks now.
  void resize(std::uint64_t ranks);
  /// For the owner that follows.
  RestartPlan plan(Time now) const { return restarter_.plan(now); }
  /// When judge() has something to do although nothing has come.
  std::optional<Time> next_due(const RankTable& table, Time now) const;

  /// Whether ranks are between two incarnations, or on their way there.
  bool is_busy() const noexcept { return restarter_.is_busy(); }
  bool is_waiting(std::uint64_t rank) const { return restarter_.is_waiting(rank); }
  bool is_stopped(std::uint64_t rank) const { return restarter_.is_stopped(rank); }
  /// Whether failures became final by stop(), and judge() has not handed them out.
  bool has_given_up() const noexcept { return !given_up_.empty(); }

 private:
  /// An owner before had begun to restart that rank with its gang: no decision follows.
  void note_left_behind(RankTable& table, std::uint64_t rank) const;
  void take(RankTable& table, Restarter::Actions actions, Judgement& judgement);
  /// Whether its host has ended, or is lost, and its ranks can move.
  bool can_move(RankTable& table, const RankReport& end) const;
  /// Takes those that can move out of the failures, and decides that they do.
  std::vector<RankReport> judge_losses(RankTable& table, const std::vector<RankReport>& failures,
                                       Time now, Judgement& judgement);
  /// Those that wait for a spare, of which there is none left, have failed.
  void give_up_hopeless(RankTable& table, Judgement& judgement);
  /// Whether nothing keeps that rank from beginning where it is to begin: nothing of it runs on a
  /// lost host, and a spare has been found.
  bool has_place(const RankTable& table, std::uint64_t rank, Time now) const;
  void begin(RankTable& table, Judgement& judgement);

  decltype(RestartPolicy::budget) budget_;
  Restarter restarter_;
  std::optional<SpareHosts> spares_;
  /// Ranks that have ended without a failure, of which the restarter has not heard.
  std::set<std::uint64_t> unjudged_;
  /// Ended ranks of which the restarter has not heard that they are over.
  std::set<std::uint64_t> not_over_;
  /// Failures that are final, and not handed out yet.
  std::vector<std::uint64_t> given_up_;
};

}  // namespace meshbus

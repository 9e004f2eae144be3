#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/controller/host_restarts.h"
#include "client/controller/mesh_ranks.h"
#include "client/controller/mesh_restarts.h"
#include "client/controller/ownership_book.h"
#include "client/controller/rank_layout.h"
#include "wire/forward.h"

namespace meshbus {

/// The restarts of one mesh in a controller that answers for it. It carries out the policy that an
/// owner before has left with the hosts: turns what MeshRestarts decides into events, and into
/// orders for each host (HostRestarts). Pure.
class MeshRevival {
 public:
  using Time = MeshRestarts::Time;
  /// The mesh: what its hosts say of its owner and of its ranks, and where these lie.
  struct Mesh {
    MeshRanks& ranks;
    const OwnershipBook& owners;
    const RankLayout& layout;
  };

  /// Begins to carry that policy out, unless some ends still wait for their exit reports. The ranks
  /// of all hosts are known.
  void begin(const Mesh& mesh, const RestartPlan& plan, Time now);
  bool is_begun() const noexcept { return restarts_.has_value(); }
  /// What was begun is forgotten, but for the orders.
  void reset_policy() { restarts_.reset(); }

  /// A rank is in another state: before that is told.
  void on_state(MeshRanks& ranks, const HostAddr& host, const wire::RankState& state);
  /// These events have gone out.
  void on_told(MeshRanks& ranks, std::span<const WatchEvent> events, Time now);
  /// These ranks (empty = all) begin no other incarnation.
  void stop(MeshRanks& ranks, const RankSet& stopped);
  /// What somebody has stopped at the hosts is not restarted. When nothing is restarted any more,
  /// the hosts are to know.
  void follow_hosts(const Mesh& mesh);

  /// Whether ranks live, or begin another incarnation.
  bool is_busy() const { return restarts_ && !restarts_->is_over(); }
  /// Whether that rank, which has ended, begins another incarnation.
  bool is_waiting(std::uint64_t rank) const { return restarts_ && restarts_->is_waiting(rank); }
  /// The policy with what is used of it. Nothing before begin().
  std::optional<RestartPlan> plan(Time now) const;
  /// Adds for a late subscriber which ranks begin no other incarnation.
  void add_given_up(const MeshRanks& ranks, std::vector<WatchEvent>& events) const;

  /// The orders for that host that are due now: as HostRestarts.
  std::optional<wire::StopProcsT> take_stop(const HostAddr& host, Time now);
  std::optional<wire::RestartProcsT> take_start(const HostAddr& host, Time now);
  void on_stop_answer(const HostAddr& host, bool is_done, Time now);
  void on_start_answer(MeshRanks& ranks, const HostAddr& host, const Result<void>& answer,
                       Time now);
  /// What that host was asked is not answered any more.
  void on_connected(const HostAddr& host);
  /// Whether there is nothing to order of that host.
  bool is_idle(const HostAddr& host) const;
  /// When MeshRestarts has something to do.
  std::optional<Time> next_due() const;
  /// When there is something to order of that host.
  std::optional<Time> next_due(const HostAddr& host) const;

 private:
  struct Host {
    HostRestarts orders;
    /// Ranks there that somebody has stopped, as far as that was taken into account.
    RankSet stopped;
  };

  Host* find(const HostAddr& host);
  void take_stops(const Mesh& mesh);
  void carry_out(MeshRanks& ranks, MeshRestarts::Outcome outcome);

  std::optional<MeshRestarts> restarts_;
  std::map<HostAddr, Host> hosts_;
};

}  // namespace meshbus

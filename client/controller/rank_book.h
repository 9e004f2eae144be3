#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "meshbus/address.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// The present incarnation of each rank of a mesh, as the hosts tell. The larger generation wins,
/// nothing leaves a terminal state, and an incarnation that was followed by another is over for
/// good. Pure.
class RankBook {
 public:
  struct Rank {
    wire::RankState state;
    std::shared_ptr<const wire::ExitReportT> exit_report;
    /// Belongs to the caller; stays where it is.
    const HostAddr* host = nullptr;
    bool is_live = false;
  };
  enum class Change {
    none,         ///< Known already, late, or said by another host than that of the rank.
    first,        ///< The rank was not known, or its record had been forgotten.
    incarnation,  ///< It has begun another incarnation.
    state,        ///< It is in another state.
  };

  Change take(const HostAddr& host, const wire::RankState& state);
  /// Adds the exit report of an end that has none.
  void add_exit_report(const HostAddr& host,
                       const std::shared_ptr<const wire::ExitReportT>& exit_report);
  /// Ends a live rank whose host does not know it any more. Returns its new state.
  const Rank& lose(std::uint64_t rank, std::shared_ptr<const wire::ExitReportT> exit_report,
                   wire::ProcState as = wire::ProcState::failed);
  /// The mesh has that ended rank on another host from now on: only what that one says counts.
  void move(std::uint64_t rank, const HostAddr& host);
  /// The mesh does not have that ended rank any more.
  void drop(std::uint64_t rank);
  /// Forgets an ended rank: what is said of this incarnation from now on comes late.
  void forget(std::uint64_t rank);

  const Rank* find(std::uint64_t rank) const;
  const std::map<std::uint64_t, Rank>& all() const noexcept { return ranks_; }
  /// Ranks on that host that are not among `those`; only live ones, or only ended ones.
  std::vector<std::uint64_t> others_on(const HostAddr& host, const std::set<std::uint64_t>& those,
                                       bool is_live) const;
  /// Ranks that were ever known.
  std::uint64_t seen() const noexcept { return seen_; }
  std::uint64_t live() const noexcept { return live_; }
  std::uint64_t live_on(const HostAddr& host) const;
  /// Ranks whose last known incarnation has failed.
  std::uint64_t failed() const noexcept { return failed_; }

 private:
  void set_state(Rank& rank, const wire::RankState& state);

  std::map<std::uint64_t, Rank> ranks_;
  /// Incarnations that are over for good.
  std::map<std::uint64_t, std::set<std::uint64_t>> past_;
  std::map<const HostAddr*, std::uint64_t> live_on_;
  std::uint64_t seen_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace meshbus

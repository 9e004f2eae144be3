#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/host_update.h"
#include "client/controller/mesh_events.h"
#include "client/controller/rank_book.h"
#include "client/controller/trouble_book.h"
#include "wire/forward.h"

namespace meshbus {

/// The ranks of one mesh of procs, as its hosts report them: takes states, exit reports and
/// troubles, and queues the events that say what has changed. Pure.
///
/// `host` is always the same object for the same host, and stays where it is: see RankBook.
class MeshRanks {
 public:
  using Time = MeshEvents::Time;

  explicit MeshRanks(std::string mesh) : events_(std::move(mesh)) {}

  MeshEvents& events() noexcept { return events_; }
  const MeshEvents& events() const noexcept { return events_; }
  const RankBook& book() const noexcept { return book_; }

  /// A host reports a rank. Every change but `none` is to be told: tell().
  RankBook::Change take(const HostAddr& host, const wire::RankState& state);
  /// Queues the present state of that rank.
  void tell(std::uint64_t rank, Time now);
  void take_exit_reports(const HostAddr& host, const RankUpdate& update);
  /// The troubles of the update have changed.
  void take_troubles(const HostAddr& host, const RankUpdate& update);
  /// The troubles of the update are all of that host.
  void take_standing(const HostAddr& host, const RankUpdate& update);
  /// Queues the troubles that have changed.
  void tell_troubles();

  /// The host denies these ranks: those of which nothing was heard count as live until
  /// lose_all_but(). Returns whether there are some.
  bool add_unheard(const HostAddr& host, const std::vector<std::uint64_t>& ranks);
  /// The host does not know its live ranks but `those`: they are lost. Those from `leaving` on were
  /// taken out of the mesh, and count as stopped.
  void lose_all_but(const HostAddr& host, const std::set<std::uint64_t>& those,
                    std::uint64_t leaving, Time now);
  /// The rank is on that host now, in the place of the one that it was on, where it is lost if it
  /// was alive. Returns whether it was on another one.
  bool move(std::uint64_t rank, const HostAddr& host, Time now);
  /// The host has forgotten its ended ranks but `those`.
  void forget_all_but(const HostAddr& host, const std::set<std::uint64_t>& those);
  /// Whether a rank from that one on lives, or its end was not told.
  bool is_any_untold_from(std::uint64_t first) const;
  /// The mesh has these ranks from now on. Those that it does not have any more were told.
  void resize(const Region& region);

  /// The present state of these ranks (empty = all) as events, for a late subscriber.
  std::vector<WatchEvent> known(const RankSet& ranks) const;

 private:
  void take_trouble(const HostAddr& host, const wire::RankTrouble& trouble,
                    const RankUpdate& update);

  MeshEvents events_;
  RankBook book_;
  TroubleBook troubles_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/host_update.h"
#include "client/controller/layout_watch.h"
#include "client/controller/mesh_part.h"
#include "client/controller/mesh_ranks.h"
#include "client/controller/mesh_revival.h"
#include "client/controller/ownership_book.h"
#include "meshbus/rank_report.h"
#include "meshbus/status_mesh.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Watches one mesh of procs (spec 8): takes what its hosts say, by push and by poll, and says what
/// is worth saying, each thing once, and what is to be asked. Pure: messages and times come in,
/// events and orders go out; no socket, clock or thread.
///
/// Messages may be lost, late, doubled or out of order: see RankBook. Silence is never an end; that
/// a host, when it is asked, does not know a live rank is one, since ranks do not outlive their
/// host.
///
/// Large because: it is the one face of a mesh to the Supervisor; what it knows is kept by the
/// classes of its members.
class MeshController {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kExitReportAsk = ReportQueue::kExitReportAsk;
  static constexpr auto kExitReportLimit = ReportQueue::kExitReportLimit;
  /// A question that failed is asked again after this long.
  static constexpr auto kAskAgain = ReportQueue::kAskAgain;
  /// A host that has nothing of a mesh for this long will not get anything of it.
  static constexpr std::chrono::milliseconds kAbsenceLimit{30'000};
  /// Ranks that their host has forgotten are remembered for this long: a subscriber may have missed
  /// how they ended.
  static constexpr std::chrono::minutes kMemory{10};

  /// A question to a host. Each gets one answer, an Error if need be: answered().
  struct Order {
    enum class Kind {
      stream,     ///< StreamState
      state,      ///< GetState
      stop,       ///< StopProcs, as in stop_order().
      stop_gang,  ///< StopProcs, as in `stop`.
      restart,    ///< RestartProcs, as in `restart`, with restart_plan().
    };
    Kind kind;
    HostAddr host;
    std::shared_ptr<const wire::StopProcsT> stop = {};
    std::shared_ptr<const wire::RestartProcsT> restart = {};
    /// Which of the times that this controller has answered for the mesh that was.
    std::uint64_t ownership = 0;
  };
  struct Actions {
    std::vector<WatchEvent> events;
    std::vector<Order> orders;
  };

  /// Hosts of the mesh that are not among `watched` are left alone: their ranks stay unknown.
  MeshController(std::string mesh, std::shared_ptr<const std::set<HostAddr>> watched)
      : ranks_(std::move(mesh)), watched_(std::move(watched)) {}

  // Ranks point at the hosts of the parts.
  MeshController(const MeshController&) = delete;
  MeshController& operator=(const MeshController&) = delete;
  MeshController(MeshController&&) = default;
  MeshController& operator=(MeshController&&) = default;

  /// The list of that host has the mesh.
  Actions listed(const HostAddr& host, const MeshUpdate& update, Time now);
  /// The list of that host does not have it.
  Actions absent(const HostAddr& host, Time now);
  /// The agent there says that ranks have changed.
  Actions pushed(const HostAddr& host, const RankUpdate& update, Time now);
  Actions answered(const Order& order, const HostAnswer& answer, Time now);
  /// A host answers, or does not.
  Actions host_changed(const HostAddr& host, bool is_silent, const std::string& problem, Time now);
  /// The agent of that host (or every one) may not push to us any more.
  Actions streams_lost(const std::optional<HostAddr>& host, Time now);
  /// Stops these ranks on every host, also where they turn up later. Events tell what becomes of
  /// it. A second order replaces the first.
  Actions stop(wire::StopProcsT order, Time now);
  const wire::StopProcsT& stop_order() const { return *stop_; }
  /// Whether this controller answers for the mesh from now on, and restarts its ranks if an owner
  /// before has left a policy with the hosts.
  Actions own(bool is_ours, Time now);
  bool is_ours() const noexcept { return is_ours_; }
  /// Whether each of its hosts has named the owner there, or nothing came when it was asked.
  /// Before, a handover that was done on one of them looks like one that was done on all.
  bool have_all_spoken() const;
  /// Asks those that have not.
  Actions ask_unheard(Time now);
  /// What goes to that host with an order to restart ranks.
  RestartPlan restart_plan(const HostAddr& host, Time now) const;
  /// Whether ranks of it begin another incarnation.
  bool is_restarting() const { return revival_.is_busy(); }
  /// To be called at next_due(), although nothing has come.
  Actions turn(Time now);
  std::optional<Time> next_due() const;

  const std::string& mesh() const noexcept { return events().mesh(); }
  const std::shared_ptr<const Region>& region() const noexcept { return events().region(); }
  /// Whether more events are expected: false when every rank has ended and was reported.
  bool is_monitored() const noexcept { return !events().queue().is_complete(); }
  /// Whether no host has anything of it any more.
  bool is_forgotten() const noexcept;
  bool is_on(const HostAddr& host) const { return parts_.contains(host); }
  const OwnershipBook& owners() const noexcept { return owners_; }
  std::uint64_t generation() const noexcept { return events().queue().generation(); }
  std::uint64_t live() const noexcept { return book().live(); }
  /// Ranks in live() whose host does not answer.
  std::uint64_t unheard() const;
  std::uint64_t live_on(const HostAddr& host) const;
  std::uint64_t failed() const noexcept { return book().failed(); }
  std::uint64_t size() const noexcept { return events().size(book().all().size()); }
  Status::Kind overall() const;
  /// By create rank. Unknown where the host does not answer and the rank had not ended; ranks of
  /// which nothing is known are left out.
  StatusOverlay statuses() const;
  /// The present state as events, for a late subscriber. No ranks = all.
  std::vector<WatchEvent> known(const RankSet& ranks = {}) const;

 private:
  using Parts = std::map<HostAddr, MeshPart>;
  using Entry = Parts::value_type;

  MeshEvents& events() noexcept { return ranks_.events(); }
  const MeshEvents& events() const noexcept { return ranks_.events(); }
  const RankBook& book() const noexcept { return ranks_.book(); }
  /// Null when that host is not watched, or has nothing to do with this mesh.
  Entry* find(const HostAddr& host);
  void take_head(const MeshUpdate& update);
  /// The hosts among them that are watched belong to it.
  void take_hosts(const std::vector<HostAddr>& hosts);
  /// The layout that a host has reported becomes that of the mesh as soon as the ranks that are
  /// not in it have ended and were told.
  void apply_layout(Time now);
  /// Ranks whose host has another one in its place are heard of from there.
  void move_ranks(Time now);
  bool take(Entry& here, const wire::RankState& state, Time now);
  void take_owner(const HostAddr& host, const OwnerUpdate& owner);
  void take_all(Entry& here, const RankUpdate& update, Time now);
  /// All that the agent has: live ranks that are not in it are lost.
  void take_whole(Entry& here, const RankUpdate& update, Time now);
  bool is_over(Time now) const;
  /// Whether the ranks of all hosts are known, or, if so wanted, of all that answer; asks for what
  /// is missing.
  bool knows_all_hosts(bool may_miss_silent);
  /// The hosts that deny a mesh of which nothing was heard there were started again: its ranks
  /// there are lost. Returns whether there are some that were not told.
  bool lose_unheard(Time now);
  /// Restarts ranks, once those of all hosts are known. `events` have gone out. Returns whether
  /// there are ends to tell first.
  bool judge(std::span<const WatchEvent> events, Time now);
  bool has_failed() const;
  void add_restart_orders(const HostAddr& host, Actions& actions, Time now);
  /// Whether that part has something to be asked; when it may be asked is another question.
  bool wants(const Entry& here, Order::Kind kind) const;
  /// Adds what there is to say and to ask now.
  Actions settle(Time now);
  void take_events(Actions& actions, Time now);

  MeshRanks ranks_;
  std::shared_ptr<const std::set<HostAddr>> watched_;
  Parts parts_;
  /// Some of its hosts are not watched.
  bool is_partial_ = false;
  OwnershipBook owners_;
  LayoutWatch layouts_;
  Time settled_{};
  std::optional<wire::StopProcsT> stop_;
  bool is_ours_ = false;
  std::uint64_t ownership_ = 0;  ///< The number of times that it was ours, and is not any more.
  /// While this controller answers for a mesh with a restart policy.
  MeshRevival revival_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/host_restarts.h"
#include "client/controller/host_update.h"
#include "client/controller/mesh_events.h"
#include "client/controller/mesh_restarts.h"
#include "client/controller/owner_word.h"
#include "client/controller/ownership_book.h"
#include "client/controller/question_state.h"
#include "client/controller/rank_book.h"
#include "client/controller/rank_layout.h"
#include "client/controller/trouble_book.h"
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
  };
  struct Actions {
    std::vector<WatchEvent> events;
    std::vector<Order> orders;
  };

  /// Hosts of the mesh that are not among `watched` are left alone: their ranks stay unknown.
  MeshController(std::string mesh, std::shared_ptr<const std::set<HostAddr>> watched)
      : events_(std::move(mesh)), watched_(std::move(watched)) {}

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
  bool is_restarting() const { return restarts_ && !restarts_->is_over(); }
  /// To be called at next_due(), although nothing has come.
  Actions turn(Time now);
  std::optional<Time> next_due() const;

  const std::string& mesh() const noexcept { return events_.mesh(); }
  const std::shared_ptr<const Region>& region() const noexcept { return events_.region(); }
  /// Whether more events are expected: false when every rank has ended and was reported.
  bool is_monitored() const noexcept { return !events_.queue().is_complete(); }
  /// Whether no host has anything of it any more.
  bool is_forgotten() const noexcept;
  bool is_on(const HostAddr& host) const { return parts_.contains(host); }
  const OwnershipBook& owners() const noexcept { return owners_; }
  std::uint64_t generation() const noexcept { return events_.queue().generation(); }
  std::uint64_t live() const noexcept { return ranks_.live(); }
  std::uint64_t live_on(const HostAddr& host) const;
  std::uint64_t failed() const noexcept { return ranks_.failed(); }
  std::uint64_t size() const noexcept { return events_.size(ranks_.all().size()); }
  Status::Kind overall() const;
  /// By create rank. Unknown where the host does not answer and the rank had not ended; ranks of
  /// which nothing is known are left out.
  StatusOverlay statuses() const;
  /// The present state as events, for a late subscriber. No ranks = all.
  std::vector<WatchEvent> known(const RankSet& ranks = {}) const;

 private:
  /// The mesh on one host.
  struct Part {
    bool is_listed = false;
    /// All that the agent has was heard once, even where a list has no room for it.
    bool is_whole = false;
    std::optional<Time> absent_since;
    QuestionState stream;
    QuestionState stop;
    bool wants_state = false;
    bool is_state_asked = false;
    /// Not before: a question has failed.
    Time ask_after{};
    bool is_silent = false;
    std::string problem;
    /// query_failed was reported.
    bool has_failed = false;
    OwnerWord word;
    /// What there is to order because ranks are restarted.
    HostRestarts restarts;
    /// Ranks there that somebody has stopped, as far as that was taken into account.
    RankSet stopped = {};
  };
  using Parts = std::map<HostAddr, Part>;
  using Entry = Parts::value_type;

  /// Null when that host is not watched, or has nothing to do with this mesh.
  Entry* find(const HostAddr& host);
  void take_head(const MeshUpdate& update);
  /// The hosts among them that are watched belong to it.
  void take_hosts(const std::vector<HostAddr>& hosts);
  /// A host says that this is the layout: it becomes that as soon as the ranks that are not in it
  /// have ended and were told.
  void take_layout(const MeshLayout& layout);
  void apply_layout();
  /// Whether that rank is about to be taken out of the mesh.
  bool is_leaving(std::uint64_t rank) const {
    return next_layout_ && rank >= next_layout_->region.num_ranks();
  }
  bool take(Entry& here, const wire::RankState& state, Time now);
  void take_owner(const HostAddr& host, const OwnerUpdate& owner);
  void take_all(Entry& here, const RankUpdate& update, Time now);
  void take_trouble(const HostAddr& host, const wire::RankTrouble& trouble,
                    const RankUpdate& update);
  /// The troubles of the update are all of that host.
  void take_standing(const HostAddr& host, const RankUpdate& update);
  /// All that the agent has: live ranks that are not in it are lost.
  void take_whole(Entry& here, const RankUpdate& update, Time now);
  void lose_all_but(const HostAddr& host, const std::set<std::uint64_t>& those, Time now);
  void forget_all_but(const HostAddr& host, const std::set<std::uint64_t>& those);
  void on_error(Entry& here, const Error& error, Time now);
  /// Queues the present state of that rank.
  void tell(std::uint64_t rank, Time now);
  bool is_over(Time now) const;
  /// Begins to carry the restart policy out once the ranks of all hosts are known. Returns whether
  /// there are ends to tell first.
  bool adopt(Time now);
  /// Whether the ranks of all hosts are known; asks for what is missing.
  bool knows_all_hosts();
  /// The hosts that deny a mesh of which nothing was heard there were started again: its ranks
  /// there are lost. Returns whether there are some that were not told.
  bool lose_unheard(Time now);
  /// Ranks that somebody has stopped at their hosts are not restarted.
  void take_stops();
  /// Takes what was told since the last time into account. As adopt().
  bool judge(const std::vector<WatchEvent>& events, std::size_t first, Time now);
  void carry_out(MeshRestarts::Outcome outcome);
  bool has_failed() const;
  void add_restart_orders(Entry& here, Actions& actions, Time now);
  /// Whether that part has something to be asked; when it may be asked is another question.
  bool wants(const Entry& here, Order::Kind kind) const;
  /// Adds what there is to say and to ask now.
  Actions settle(Time now);
  void take_events(Actions& actions, Time now);

  MeshEvents events_;
  std::shared_ptr<const std::set<HostAddr>> watched_;
  Parts parts_;
  /// Some of its hosts are not watched.
  bool is_partial_ = false;
  RankBook ranks_;
  TroubleBook troubles_;
  OwnershipBook owners_;
  RankLayout layout_;
  std::uint32_t revision_ = 0;
  std::optional<MeshLayout> next_layout_;
  Time settled_{};
  std::optional<wire::StopProcsT> stop_;
  bool is_ours_ = false;
  /// While this controller answers for a mesh with a restart policy.
  std::optional<MeshRestarts> restarts_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/controller/host_news.h"
#include "client/controller/report_queue.h"
#include "client/controller/watch_event.h"
#include "meshbus/rank_report.h"
#include "meshbus/status_mesh.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Watches one mesh of procs (spec 8): takes what its hosts say, by push and by poll, and says what is worth saying, each thing once, and
/// what is to be asked. Pure: messages and times come in, events and orders go out; no socket, clock or thread.
///
/// Whatever is lost, late, twice or out of order on the way: of one life of a rank the larger generation wins, and nothing leaves a
/// terminal state. Silence is never an end; that a host, asked, does not know a live rank any more is one, since ranks do not outlive their
/// host.
class MeshController {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto exit_report_ask = ReportQueue::kExitReportAsk;
  static constexpr auto exit_report_limit = ReportQueue::kExitReportLimit;
  /// What was asked in vain is asked again after so long.
  static constexpr auto ask_again = ReportQueue::kAskAgain;
  /// A host that has nothing of a mesh for so long will get nothing any more.
  static constexpr std::chrono::milliseconds absence_limit{30'000};
  /// What its host has forgotten is remembered for so long: a subscriber may have missed how it ended.
  static constexpr std::chrono::minutes memory{10};

  /// What is to be asked of a host. Each gets one answer, an Error if need be: answered().
  struct Order {
    enum class Kind {
      stream,  ///< StreamState
      state,   ///< GetState
      stop,    ///< StopProcs, as in stop_order().
    };
    Kind kind;
    HostAddr host;
  };
  struct Actions {
    std::vector<WatchEvent> events;
    std::vector<Order> orders;
  };

  /// Hosts of the mesh that are not among `watched` are left alone: what is there stays unknown.
  MeshController(std::string mesh, std::shared_ptr<const std::set<HostAddr>> watched)
      : mesh_(std::move(mesh)), watched_(std::move(watched)) {}

  // Parts and ranks point at each other.
  MeshController(const MeshController&) = delete;
  MeshController& operator=(const MeshController&) = delete;
  MeshController(MeshController&&) = default;
  MeshController& operator=(MeshController&&) = default;

  /// It is in the list of that host.
  Actions listed(const HostAddr& host, const MeshNews& news, Time now);
  /// The list of that host is without it.
  Actions absent(const HostAddr& host, Time now);
  /// The agent there says that ranks have changed.
  Actions pushed(const HostAddr& host, const RankNews& news, Time now);
  Actions answered(const Order& order, const HostAnswer& answer, Time now);
  /// A host answers, or does not.
  Actions host_changed(const HostAddr& host, bool is_silent, const std::string& problem, Time now);
  /// That host (or every one) does not push to us any more, as far as we know.
  Actions streams_lost(const std::optional<HostAddr>& host, Time now);
  /// These ranks are to be stopped, on every host, also where they turn up later. What becomes of it is told by events. Again: as well.
  Actions stop(wire::StopProcsT order, Time now);
  const wire::StopProcsT& stop_order() const { return *stop_; }
  Actions turn(Time now);
  /// When turn() is to be called although nothing has come.
  std::optional<Time> next_due() const;

  const std::string& mesh() const noexcept { return mesh_; }
  const std::shared_ptr<const Region>& region() const noexcept { return region_; }
  /// Whether more is expected: false when every rank has ended and was told.
  bool is_monitored() const noexcept { return !reports_.is_complete(); }
  /// Nobody has anything of it any more.
  bool is_forgotten() const noexcept;
  bool is_on(const HostAddr& host) const { return parts_.contains(host); }
  /// Who answers for it, as the first host says that does; null: none has said.
  const OwnerNews* owner() const;
  /// Whether one of these answers for it: some of its hosts say so, and none says anything else. A mesh that was handed over on some of its
  /// hosts only is still for who hands it over.
  bool is_owned_by(const std::set<std::string>& names) const;
  /// As that host says; 0 = none.
  std::chrono::milliseconds lease_on(const HostAddr& host) const;
  std::uint64_t generation() const noexcept { return reports_.generation(); }
  std::uint64_t live() const noexcept { return live_; }
  std::uint64_t live_on(const HostAddr& host) const;
  std::uint64_t failed() const noexcept { return failed_; }
  std::uint64_t size() const noexcept { return region_ == nullptr ? ranks_.size() : region_->num_ranks(); }
  Status::Kind overall() const;
  /// By create rank. Unknown where the host does not answer and the rank had not ended; ranks of which nothing is known are not in it.
  StatusOverlay statuses() const;
  /// All that was told and stands, for who comes late. No ranks = all.
  std::vector<WatchEvent> known(const RankSet& ranks = {}) const;

 private:
  enum class Asked { no, waits, done };
  /// What lies on one host.
  struct Part {
    bool is_listed = false;
    bool is_whole = false;  ///< All that the agent has was heard at least once, even where a list has no room for it.
    std::optional<Time> absent_since;
    Asked stream = Asked::no;
    Asked stop = Asked::no;
    bool wants_state = false;
    bool is_state_asked = false;
    Time ask_after{};  ///< Not before: something was asked in vain.
    bool is_silent = false;
    std::string problem;
    bool has_failed = false;  ///< query_failed was told.
    std::uint64_t live = 0;
    std::optional<OwnerNews> owner;
  };
  struct Rank {
    wire::RankState state;
    std::shared_ptr<const wire::ExitReportT> exit_report;
    Part* part = nullptr;
    bool is_live = false;
  };
  struct Troubled {
    wire::RankTrouble known;
    wire::Trouble told = wire::Trouble::none;
  };
  using Ranks = std::map<std::uint64_t, Rank>;

  /// Null when that host is not watched, or has nothing to do with this mesh.
  Part* find(const HostAddr& host);
  bool take(Part& part, const wire::RankState& state, Time now);
  void take_all(Part& part, const RankNews& news, Time now);
  void take_exit_reports(Part& part, const RankNews& news);
  void take_trouble(const Part& part, const wire::RankTrouble& trouble);
  /// `troubles` are all that stand there.
  void take_standing(const Part& part, const std::vector<wire::RankTrouble>& troubles);
  /// All that the agent has: what it does not have and was not told to have ended is lost.
  void take_whole(const HostAddr& host, Part& part, const MeshNews& news, Time now);
  /// Live ranks that are not among those are lost.
  void lose_all_but(const HostAddr& host, Part& part, const std::set<std::uint64_t>& those, Time now);
  void forget_all_but(Part& part, const std::set<std::uint64_t>& those);
  void set_state(Rank& rank, const wire::RankState& state, Time now);
  void take_head(const MeshNews& news);
  void on_error(const HostAddr& host, Part& part, const Error& error, Time now);
  WatchEvent make_event(WatchEvent::Kind kind, const HostAddr& host) const;
  WatchEvent make_event(const Rank& rank) const;
  WatchEvent make_event(const Rank& rank, const wire::RankTrouble& trouble) const;
  bool is_over(Time now) const;
  /// Whether something is to be asked there: when that may be is another question.
  bool wants_stop(const Part& part) const;
  bool wants_stream(const Part& part) const;
  bool wants_state(const Part& part) const;
  /// What there is to say and to ask now.
  void settle(Actions& actions, Time now);
  void tell(Actions& actions, Time now);
  void ask(const HostAddr& host, Part& part, Actions& actions, Time now);

  std::string mesh_;
  std::shared_ptr<const std::set<HostAddr>> watched_;
  std::shared_ptr<const Region> region_;
  std::map<HostAddr, Part> parts_;
  std::map<const Part*, const HostAddr*> host_of_;
  /// Some of its hosts are not watched.
  bool is_partial_ = false;
  Ranks ranks_;
  ReportQueue reports_;
  /// Ready ranks that are, or were, in trouble in this life.
  std::map<std::uint64_t, Troubled> troubles_;
  /// Lives that are over for good: what is said of them comes late.
  std::map<std::uint64_t, std::set<std::uint64_t>> past_lives_;
  std::uint64_t seen_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t failed_ = 0;
  Time settled_{};
  std::optional<wire::StopProcsT> stop_;
};

}  // namespace meshbus

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/controller/actors_name.h"
#include "client/controller/mesh_controller.h"
#include "client/controller/report_queue.h"
#include "wire/actors_generated.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Watches the actors of one name in the procs of a mesh (spec 8): takes what the MeshController of these procs has told, and what the
/// procs say of their actors, by push and by poll; says what is worth saying, each thing once, and what is to be asked. Pure, like that
/// one.
///
/// Ranks are those of the procs. A proc's end is the end of its actor, unless that had ended before; so is the end of a proc that was never
/// asked, when its peers have actors of that name. A proc that has none is no member, or not yet: it is asked again, and pushes when it
/// gets one.
class ActorMeshController {
 public:
  using Time = MeshController::Time;
  /// Procs that are asked at a time.
  static constexpr std::size_t most_asked = 256;

  /// What is to be asked of a proc. Each gets one answer, an Error if need be: answered().
  struct Order {
    enum class Kind {
      stream,  ///< StreamActors
      stop,    ///< StopActor, as in stop_order().
    };
    Kind kind;
    std::uint64_t rank;
    HostAddr host;
    std::uint64_t incarnation;  ///< Of the proc.
  };
  struct Actions {
    std::vector<WatchEvent> events;
    std::vector<Order> orders;
  };

  explicit ActorMeshController(ActorsName name) : name_(std::move(name)), text_(name_.to_string()) {}

  /// What the MeshController of the procs has told; at first all that it knows.
  Actions procs_told(const std::vector<WatchEvent>& events, Time now);
  /// A proc says that actors of it have changed. Keys: of the proc and its host, as in an envelope.
  Actions pushed(std::uint64_t proc_key, std::uint64_t host_key, std::uint64_t incarnation, const ActorNews& news, Time now);
  Actions answered(const Order& order, const HostAnswer& answer, Time now);
  /// Everybody is to be asked again: pushes may have been lost.
  Actions poll(Time now);
  /// The actors of these ranks are to be stopped, also those that turn up later. What becomes of it is told by events. Again: as well.
  Actions stop(wire::StopProcsT order, Time now);
  const wire::StopProcsT& stop_order() const { return *stop_; }
  Actions turn(Time now);
  /// When turn() is to be called although nothing has come.
  std::optional<Time> next_due() const;

  const ActorsName& name() const noexcept { return name_; }
  /// The same as text: the mesh of its events.
  const std::string& mesh() const noexcept { return text_; }
  const std::shared_ptr<const Region>& region() const noexcept { return region_; }
  /// Whether more is expected: false when every actor has ended and was told, and no other will come.
  bool is_monitored() const noexcept { return !reports_.is_complete(); }
  std::uint64_t generation() const noexcept { return reports_.generation(); }
  std::uint64_t live() const noexcept { return count(Standing::live) + count(Standing::unheard); }
  std::uint64_t failed() const noexcept { return count(Standing::failed); }
  std::uint64_t size() const noexcept { return region_ == nullptr ? ranks_.size() : region_->num_ranks(); }
  Status::Kind overall() const;
  /// By create rank of the procs. Unknown where the host or the proc does not answer; not_exist where the proc has no such actor.
  StatusOverlay statuses() const;
  /// All that was told and stands, for who comes late. No ranks = all.
  std::vector<WatchEvent> known(const RankSet& ranks = {}) const;

 private:
  enum class Asked { no, waits, done };
  /// Of one rank.
  enum class Standing {
    unknown,  ///< Its proc has not said yet whether it has the actor.
    absent,   ///< It has none.
    live,
    unheard,  ///< It lived when its host was last heard.
    stopped,
    failed,
    never,    ///< Its proc has ended, and had none.
    unasked,  ///< Its proc has ended, and whether it had one nobody can say.
  };
  struct Rank {
    HostAddr host = HostAddr::local(0);
    /// As told; with its exit report when it has ended.
    wire::RankState proc;
    std::shared_ptr<const wire::ExitReportT> proc_exit_report;
    bool is_answered = false;  ///< Whether it has the actor is known.
    /// Of the actor, in the terms of procs; none = there is none.
    std::optional<wire::RankState> state;
    std::shared_ptr<const wire::ExitReportT> exit_report;
    std::shared_ptr<const wire::ActorStateT> actor;  ///< What it said itself.
    Standing standing = Standing::unknown;
    Asked stream = Asked::no;
    Asked stop = Asked::no;
    bool has_failed = false;  ///< query_failed was told.
  };

  std::uint64_t count(Standing standing) const noexcept { return counts_[static_cast<std::size_t>(standing)]; }
  void take_proc(const WatchEvent& event, Time now);
  void take_silence(const HostAddr& host, bool is_silent, const std::string& problem);
  void take_actor(std::uint64_t number, Rank& rank, const std::shared_ptr<const wire::ActorStateT>& actor, Time now);
  void take_list(std::uint64_t number, Rank& rank, const ActorNews& news, Time now);
  void end_with_proc(std::uint64_t number, Rank& rank, Time now);
  void set_state(std::uint64_t number, Rank& rank, const wire::RankState& state, std::shared_ptr<const wire::ExitReportT> exit_report,
                 Time now);
  Standing find_standing(const Rank& rank) const;
  void note_standing(std::uint64_t number, Rank& rank);
  /// Whether its proc can be asked, and has more to say.
  bool can_ask(const Rank& rank) const;
  bool wants_stop(std::uint64_t number, const Rank& rank) const;
  bool is_over(Time now) const;
  WatchEvent make_event(WatchEvent::Kind kind, const HostAddr& host) const;
  WatchEvent make_event(const Rank& rank) const;
  void settle(Actions& actions, Time now);
  void tell(Actions& actions, Time now);
  void ask(std::uint64_t number, Rank& rank, Actions& actions);

  ActorsName name_;
  std::string text_;
  std::shared_ptr<const Region> region_;
  std::map<std::uint64_t, Rank> ranks_;
  /// Key of a proc -> rank.
  std::unordered_map<std::uint64_t, std::uint64_t> rank_of_;
  std::array<std::uint64_t, 8> counts_{};
  /// Hosts that do not answer, and why.
  std::map<HostAddr, std::string> silent_;
  /// Any proc had one, in any life.
  bool has_seen_ = false;
  /// Its ranks are not those of the procs: it is in some of them only.
  bool is_slice_ = false;
  bool have_procs_ended_ = false;
  std::set<std::uint64_t> unasked_;
  /// Its ends have their exit reports from the beginning.
  ReportQueue reports_;
  /// Of which something is to be asked, now or later.
  std::set<std::uint64_t> to_ask_;
  std::multimap<Time, std::uint64_t> later_;
  /// Rank and incarnation of the procs whose answer is awaited.
  std::set<std::pair<std::uint64_t, std::uint64_t>> asked_;
  /// Since then no proc was found to have none.
  Time absent_since_{};
  Time settled_{};
  std::optional<wire::StopProcsT> stop_;
};

}  // namespace meshbus

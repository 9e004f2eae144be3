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
#include <utility>
#include <vector>

#include "client/controller/actor_record.h"
#include "client/controller/actors_name.h"
#include "client/controller/mesh_controller.h"
#include "client/controller/mesh_events.h"
#include "client/controller/proc_questions.h"
#include "wire/actors_generated.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// Watches the actors of one name in the procs of a mesh (spec 8). It takes the events of the
/// MeshController of these procs, and the procs' reports of their actors, by push and by poll. It
/// returns events, each once, and questions to ask. Pure, as the MeshController is.
///
/// Ranks are those of the procs. A proc's end is the end of its actor, unless that had ended
/// before. This holds for a proc that was never asked, too, when its peers have actors of that
/// name. A proc that has none is no member, or not yet: it is asked again, and pushes when it gets
/// one.
///
/// Large because: it is the one face of these actors to the Supervisor; what it knows is kept by
/// the classes of its members.
class ActorMeshController {
 public:
  using Time = MeshController::Time;
  using Standing = ActorRecord::Standing;
  static constexpr std::size_t kMostAsked = ProcQuestions::kMostAsked;

  /// A question to a proc. Each gets one answer, an Error if need be: answered().
  struct Order {
    enum class Kind {
      stream,  ///< StreamActors
      stop,    ///< StopActor, as in stop_order().
    };
    Kind kind;
    std::uint64_t rank;
    HostAddr host;
    std::uint64_t incarnation;  ///< The incarnation of the proc.
  };
  struct Actions {
    std::vector<WatchEvent> events;
    std::vector<Order> orders;
  };

  explicit ActorMeshController(ActorsName name)
      : name_(std::move(name)), events_(name_.to_string()) {}

  /// Events of the MeshController of the procs; at first all that it knows.
  Actions procs_told(const std::vector<WatchEvent>& events, Time now);
  /// A proc says that actors of it have changed. Keys: of the proc and its host, as in an envelope.
  Actions pushed(std::uint64_t proc_key, std::uint64_t host_key, std::uint64_t incarnation,
                 const ActorUpdate& update, Time now);
  Actions answered(const Order& order, const HostAnswer& answer, Time now);
  /// Every proc is to be asked again: pushes may have been lost.
  Actions poll(Time now);
  /// Stops the actors of these ranks, also those that turn up later. Events tell what becomes of
  /// it. A second order replaces the first.
  Actions stop(wire::StopProcsT order, Time now);
  const wire::StopProcsT& stop_order() const { return *stop_; }
  /// To be called at next_due(), although nothing has come.
  Actions turn(Time now);
  std::optional<Time> next_due() const;

  const ActorsName& name() const noexcept { return name_; }
  /// The same as text: the mesh of its events.
  const std::string& mesh() const noexcept { return events_.mesh(); }
  const std::shared_ptr<const Region>& region() const noexcept { return events_.region(); }
  /// Whether more events are expected: false when every actor has ended and was reported, and no
  /// other will come.
  bool is_monitored() const noexcept { return !events_.queue().is_complete(); }
  std::uint64_t generation() const noexcept { return events_.queue().generation(); }
  std::uint64_t live() const noexcept { return count(Standing::live) + count(Standing::unheard); }
  /// Actors in live() whose host or proc does not answer.
  std::uint64_t unheard() const noexcept { return count(Standing::unheard); }
  std::uint64_t failed() const noexcept { return count(Standing::failed); }
  std::uint64_t size() const noexcept { return events_.size(ranks_.size()); }
  Status::Kind overall() const;
  /// By create rank of the procs. Unknown where the host or the proc does not answer; not_exist
  /// where the proc has no such actor.
  StatusOverlay statuses() const;
  /// The present state as events, for a late subscriber. No ranks = all.
  std::vector<WatchEvent> known(const RankSet& ranks = {}) const;

 private:
  using Rank = ActorRecord;

  std::uint64_t count(Standing standing) const noexcept {
    return counts_[static_cast<std::size_t>(standing)];
  }
  void take_proc(const WatchEvent& event, Time now);
  void take_silence(const HostAddr& host, bool is_silent, const std::string& problem);
  void take_actor(std::uint64_t number, Rank& rank,
                  const std::shared_ptr<const wire::ActorStateT>& actor, Time now);
  void take_list(std::uint64_t number, Rank& rank, const ActorUpdate& update, Time now);
  void end_with_proc(std::uint64_t number, Rank& rank, Time now);
  void set_state(std::uint64_t number, Rank& rank, ActorRecord::End next, Time now);
  void note_standing(std::uint64_t number, Rank& rank);
  bool wants_stop(std::uint64_t number, const Rank& rank) const;
  bool is_over(Time now) const;
  WatchEvent make_event(const Rank& rank) const;
  Actions settle(Time now);
  void ask(std::uint64_t number, Rank& rank, Actions& actions);

  ActorsName name_;
  /// Its ends have their exit reports from the beginning.
  MeshEvents events_;
  std::map<std::uint64_t, Rank> ranks_;
  /// Key of a proc -> rank.
  std::unordered_map<std::uint64_t, std::uint64_t> rank_of_;
  std::array<std::uint64_t, ActorRecord::kNumStandings> counts_{};
  /// Hosts that do not answer, and why.
  std::map<HostAddr, std::string> silent_;
  /// Any proc had one, in any incarnation.
  bool has_seen_ = false;
  /// Its ranks are not those of the procs: it is in some of them only.
  bool is_slice_ = false;
  bool have_procs_ended_ = false;
  std::set<std::uint64_t> unasked_;
  ProcQuestions questions_;
  /// Since then no proc was found to have none.
  Time absent_since_{};
  Time settled_{};
  std::optional<wire::StopProcsT> stop_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/controller/owned_meshes.h"
#include "client/controller/supervised_meshes.h"
#include "client/controller/supervisor_actions.h"
#include "wire/forward.h"

namespace meshbus {

/// Watches hosts and all their meshes (spec 8): probes each host, polls its meshes, which
/// SupervisedMeshes follows, and notices when it was late itself. Pure: answers and times come in,
/// events and questions go out; no socket, clock or thread.
///
/// Large because: it is the one face of all that a controller knows; meshes, actors and leases have
/// classes of their own.
class Supervisor {
 public:
  using Time = MeshController::Time;
  struct Options {
    std::vector<HostAddr> hosts;
    std::string mesh;  ///< Only that one, by name or base; empty = all.
    std::string actors =
        {};  ///< In each mesh that is watched, those of that name; empty = those of watch_actors().
    std::chrono::milliseconds poll{10'000};
    std::chrono::milliseconds probe{1000};
    /// A host of which nothing was heard for so long is unreachable. With the time between two
    /// probes within the 5 s of spec 8.7.
    std::chrono::milliseconds silence{4000};
  };
  using Question = SupervisorQuestion;
  using Actions = SupervisorActions;

  Supervisor(Options options, Time now);

  /// To be called at next_due(), and whenever.
  Actions turn(Time now);
  Time next_due() const;
  Actions answer(const Question& question, const HostAnswer& answer, Time now);
  /// The agent of that host says that ranks of a mesh have changed.
  Actions pushed(const HostAddr& host, const std::string& mesh, const RankUpdate& update, Time now);
  /// Our own connection is there again (and agents may know us by another name), or is gone: then
  /// nothing can be asked, and silence means nothing.
  Actions connected(bool is_up, Time now);
  /// The host is silent, by other proof.
  Actions silent(const HostAddr& host, const std::string& problem, Time now);
  /// From now on also the actors of that name, wherever the mesh is or comes to be, until nobody
  /// wants them or the mesh is forgotten. Errors: refused (another mesh is watched alone),
  /// queue_full.
  Result<Actions> watch_actors(const ActorsName& name, Time now);
  /// Meshes without a subscriber are forgotten after MeshController::kMemory.
  void forget_actors(const std::function<bool(const std::string&)>& is_wanted, Time now);
  /// The proc of that key says that actors of it have changed.
  Actions actors_pushed(std::uint64_t proc_key, std::uint64_t host_key, std::uint64_t incarnation,
                        const ActorUpdate& update, Time now);
  /// Stops a mesh of procs, or of actors. Errors: not_exist.
  Result<Actions> stop(wire::StopProcsT order, Time now);
  /// Asks all hosts now what they have.
  Actions poll_now(Time now);
  /// We are known by this name (a ProcId), from now on also: meshes whose owner it is are ours, and
  /// their leases are renewed.
  Actions add_name(const std::string& name, Time now);
  /// Another controller acts: nothing is ours any more.
  Actions drop_names(Time now);
  /// A host has answered our claim of a term; these have acted in terms before.
  Actions claimed(const HostAddr& host, const std::vector<PairFormer>& former, Time now);
  bool is_owned(const MeshController& mesh) const { return owned_.contains(mesh); }
  /// Its owner, as far as hosts have said it.
  const OwnerUpdate* owner_of(const MeshController& mesh) const { return owned_.owner_of(mesh); }
  /// Whether that host knows us as the owner of the mesh by a name before this one.
  bool has_moved(const MeshController& mesh, const HostAddr& host, const ProcId& self) const {
    return owned_.has_moved(mesh, host, self.to_string());
  }
  /// We are handing the mesh over: it stays ours, whatever its hosts report, until all of them have
  /// confirmed.
  void hold(const std::string& mesh);
  void let_go(const std::string& mesh);
  /// The handover has failed somewhere, and is not under way any more.
  Actions resume(const std::string& mesh, Time now);
  /// Whether that name of an owner is one of ours.
  bool is_us(const std::string& owner) const { return owned_.is_us(owner); }
  /// The hosts that are ours; `that_end`: those of them that end with this controller.
  std::vector<HostAddr> owned_hosts(bool that_end = false) const { return owned_.hosts(that_end); }
  /// The owner of that host, as it says, or as it was told.
  void note_host_owner(const HostAddr& host, const std::optional<OwnerUpdate>& owner);
  /// So many of our meshes have live ranks.
  std::size_t live_owned() const;
  /// Whether all events of our meshes have gone out: the last ends, their exit reports, and the
  /// ends of the meshes.
  bool has_told_owned() const;
  /// Stops them. `order`: for each of them.
  Actions stop_owned(const wire::StopProcsT& order, Time now);

  const SupervisedMeshes::All& meshes() const noexcept { return meshes_.all(); }
  const MeshController* find(std::string_view mesh) const { return meshes_.find(mesh); }
  const ActorWatch::Actors& actors() const noexcept { return meshes_.actors().all(); }
  const ActorMeshController* find_actors(std::string_view name) const {
    return meshes_.actors().find(name);
  }
  std::vector<HostAddr> unreachable() const;
  std::uint64_t polls() const noexcept { return polls_; }
  std::uint64_t late_polls() const noexcept { return late_polls_; }
  const Options& options() const noexcept { return options_; }

 private:
  struct Host {
    Time heard{};
    bool is_silent = false;
    std::string problem;
    std::uint64_t refusals = 0;  ///< So many probes in a row came back.
    std::uint64_t probes = 0;    ///< Under way.
    bool is_listing = false;
    bool has_failed = false;  ///< query_failed was reported.
    std::uint64_t incarnation = 0;
    /// Live procs there of meshes that are none of ours: of those of its last list, and of the one
    /// under way.
    std::uint64_t others = 0;
    std::uint64_t others_so_far = 0;
    /// Asked for while a list was under way.
    bool wants_list = false;
  };

  /// What is ours has changed: leases, and restarts.
  void note_owned(Actions& actions, Time now);
  /// What is ours has changed, or where it lives.
  void note_leases();
  /// Whether leases can be renewed there now; a silent host gets them as soon as it answers.
  bool may_renew(const Host& host) const { return is_up_ && !host.is_silent; }
  void renew_all(Actions& actions, Time now);
  /// While a list is under way: when that is here.
  void ask_list(Actions& actions, const HostAddr& address, Host& host,
                const std::string& after = {});
  void hear(Actions& actions, const HostAddr& address, Host& host, Time now);
  void fall_silent(Actions& actions, const HostAddr& address, Host& host,
                   const std::string& problem, Time now);
  void probe_all(Actions& actions, Time now);
  void begin_poll(Actions& actions, Time now);
  void on_probe(Actions& actions, const HostAddr& address, Host& host, const HostAnswer& answer,
                Time now);
  void on_list(Actions& actions, const HostAddr& address, Host& host, const ListUpdate& list,
               Time now);

  Options options_;
  std::map<HostAddr, Host> hosts_;
  SupervisedMeshes meshes_;
  OwnedMeshes owned_;
  bool is_up_ = false;
  std::uint64_t polls_ = 0;
  std::uint64_t late_polls_ = 0;
  Time poll_due_;
  Time probe_due_;
};

}  // namespace meshbus

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/src/monitors/exec_router.h"
#include "client/src/monitors/followed_mesh.h"
#include "client/src/monitors/lease_renewer.h"
#include "client/src/monitors/order_router.h"
#include "common/bus/bus.h"
#include "meshbus/address.h"
#include "meshbus/rank_report.h"
#include "wire/forward.h"

namespace meshbus {

class ActorMonitor;
class Gateway;
class HostMonitor;
class LogFeed;

/// What a launcher follows: hands updates of agents and procs to the monitors of meshes and
/// actors and to feeds of logs, and asks again for what was missed. Lives on the reactor's thread.
///
/// Large because: each kind of follower is added, removed and told by functions of its own.
class UpdateRouter {
 public:
  UpdateRouter(Gateway& gateway, HostMonitor& hosts)
      : gateway_(gateway),
        hosts_(hosts),
        execs_(gateway),
        orders_(gateway, [this](const Request& request, const flatbuffers::String* mesh,
                                const HostAddr** from) { return find(request, mesh, from); }) {}
  UpdateRouter(const UpdateRouter&) = delete;
  UpdateRouter& operator=(const UpdateRouter&) = delete;

  /// Adds the handlers of all updates.
  void handle(Dispatcher& handlers);

  /// Follows a mesh. Calls to its ranks fail when these end.
  void add(std::shared_ptr<MeshMonitor> monitor, Reactor& reactor);
  void remove(const MeshMonitor& monitor);
  /// Whether a mesh of procs of this launcher stands for that mesh, and answers for it.
  bool is_ours(std::string_view mesh) const;
  /// Why procs of that mesh take no calls, when it is known that they never do.
  std::optional<Error> refusal_of(const Name& mesh) const;
  /// The same for one proc, or how its host was lost with it.
  std::optional<Error> refusal_of(const ProcName& proc) const;
  /// Whether any host was lost with ranks that are followed.
  bool has_losses() const noexcept { return !lost_.empty(); }
  /// The error of a call to that proc. Of a rank that has ended it says how.
  Error explain(const ProcName& proc, Error error) const;
  /// Starts a feed of logs.
  void add(std::shared_ptr<LogFeed> feed);
  void remove(const LogFeed& feed);
  /// Follows actors, and the ends of their procs as `procs` tells them.
  void add(const std::shared_ptr<ActorMonitor>& actors, const std::shared_ptr<MeshMonitor>& procs);
  void remove(const ActorMonitor& actors);

  /// What runs beside ranks.
  ExecRouter& execs() noexcept { return execs_; }
  /// Orders for the meshes that are followed.
  OrderRouter& orders() noexcept { return orders_; }

  /// The rank of a mesh that is followed whose proc has that key.
  std::optional<ProcId> find_proc(std::uint64_t key);
  /// Whether something that is followed lives on that host.
  bool is_needed(const HostAddr& host) const;
  /// Asks every host again for everything, because messages may have been lost.
  void resync_all();
  /// The same for one host, after it was silent or got another agent. Returns the leases that its
  /// agent may not know.
  std::vector<std::string> resync(const HostAddr& host, bool has_missed, bool is_replaced);
  /// Forgets what is over, and asks again for output and logs that do not come.
  void upkeep();
  /// The ranks of that host, or all ranks, are lost.
  void lose(const HostAddr& host, const std::string& reason);
  void lose_all(const std::string& reason);
  /// The broker does not let us in any more: nothing is asked for again.
  void on_refused(const std::string& reason);
  /// Nothing more will be heard: all that waits fails.
  void close(const std::string& reason);

  /// A mesh is being handed over (FollowedMesh::begin_handover). False: it is not followed.
  bool begin_handover(const std::string& mesh, std::chrono::milliseconds lease);
  /// The shortest lease that a handover under way has set; 0 = none.
  std::chrono::milliseconds shortest_given_lease() const;
  /// The leases of meshes and actors.
  std::vector<LeaseRenewer::Lease> leases() const;
  /// Whether something under that lease lives on that host.
  bool is_leased_on(const std::string& lease, const HostAddr& host) const;

 private:
  void on_state_changed(const Request& request, const wire::StateChanged& changed);
  void on_output(const Request& request, const wire::Output& output);
  void on_log(const Request& request, const wire::Log& log);
  void on_actor_event(const Request& request, const wire::ActorEvent& event);
  void on_proc_end(const std::weak_ptr<ActorMonitor>& actors, const RankReport& proc);
  /// Null when that is not followed, or does not come from an agent of ours.
  MeshMonitor* find(const Request& request, const flatbuffers::String* mesh,
                    const HostAddr** from) const;
  void resync(FollowedMesh& mesh, const HostAddr& host);

  Gateway& gateway_;
  HostMonitor& hosts_;
  std::map<std::string, FollowedMesh, std::less<>> meshes_;
  std::set<std::string> plain_;  // of meshes_, those whose procs take no calls
  std::set<std::string> lost_;   // of meshes_, those that lost ranks with a host
  std::map<std::uint64_t, std::shared_ptr<LogFeed>> feeds_;
  std::vector<std::shared_ptr<ActorMonitor>> actors_;
  ExecRouter execs_;
  OrderRouter orders_;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus

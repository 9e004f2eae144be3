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

#include "client/controller/lease_book.h"
#include "client/controller/mesh_controller.h"

namespace meshbus {

/// Watches hosts and all meshes that they have (spec 8): asks each host whether it is there, polls what it has, hands that to a
/// MeshController for each mesh, and notices when it was late itself. Pure: answers and times come in, events and questions go out; no
/// socket, clock or thread.
class Supervisor {
 public:
  using Time = MeshController::Time;
  struct Options {
    std::vector<HostAddr> hosts;
    std::string mesh;  ///< Only that one, by name or base; empty = all.
    std::chrono::milliseconds poll{10'000};
    std::chrono::milliseconds probe{1000};
    /// A host of which nothing was heard for so long is unreachable. With the time between two probes within the 5 s of spec 8.7.
    std::chrono::milliseconds silence{4000};
  };
  struct Question {
    enum class Kind {
      probe,   ///< GetHost
      list,    ///< ListMeshes
      stream,  ///< StreamState
      state,   ///< GetState
      stop,    ///< StopProcs, as in find(mesh)->stop_order()
      renew,   ///< RenewLease of `meshes`, as long as before.
    };
    Kind kind;
    HostAddr host;
    std::string mesh;
    std::string after;  ///< Of a list.
    std::vector<std::string> meshes = {};
  };
  struct Actions {
    std::vector<WatchEvent> events;
    /// Each gets one answer(), an Error if need be.
    std::vector<Question> questions;
    /// A poll has begun: subscribers are to hear that.
    bool is_heartbeat = false;
  };

  Supervisor(Options options, Time now);

  /// To be called at next_due(), and whenever.
  Actions turn(Time now);
  Time next_due() const;
  Actions answer(const Question& question, const HostAnswer& answer, Time now);
  /// The agent of that host says that ranks of a mesh have changed.
  Actions pushed(const HostAddr& host, const std::string& mesh, const RankNews& news, Time now);
  /// Our own connection is there again (and agents may know us by another name), or is gone: then nothing can be asked, and silence means
  /// nothing.
  Actions connected(bool is_up, Time now);
  /// That host is silent, by other proof.
  Actions silent(const HostAddr& host, const std::string& problem, Time now);
  /// Errors: not_exist.
  Result<Actions> stop(wire::StopProcsT order, Time now);
  /// Asks all hosts now what they have.
  Actions poll_now(Time now);
  /// We are known by this name (a ProcId), from now on also: meshes whose owner it is are ours, and their leases are renewed.
  Actions add_name(const std::string& name, Time now);
  bool is_owned(const MeshController& mesh) const { return held_.contains(mesh.mesh()) || mesh.is_owned_by(names_); }
  /// It is being handed over to somebody else: it stays ours, whatever its hosts say, until that is done on all of them.
  void hold(const std::string& mesh) { held_.insert(mesh); }
  void let_go(const std::string& mesh);
  /// So many of our meshes have live ranks.
  std::size_t live_owned() const;
  /// Stops them. `order`: for each of them.
  Actions stop_owned(const wire::StopProcsT& order, Time now);

  const std::map<std::string, MeshController, std::less<>>& meshes() const noexcept { return meshes_; }
  const MeshController* find(std::string_view mesh) const;
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
    bool has_failed = false;  ///< query_failed was told.
    std::uint64_t incarnation = 0;
    std::uint64_t live = 0;  ///< By its own account.
    LeaseBook leases;
    bool is_renewing = false;
    /// Asked for while a list was under way.
    bool wants_list = false;
    /// Its account and ours when they differed and it was asked what it has.
    std::optional<std::pair<std::uint64_t, std::uint64_t>> differed;
  };

  bool is_wanted(std::string_view mesh) const;
  /// What is ours has changed, or where it lives.
  void note_leases();
  bool may_renew(const Host& host) const;
  void renew_all(Actions& actions, Time now);
  void on_renewed(const Question& question, Host& host, const HostAnswer& answer, Time now);
  void add(Actions& actions, const MeshController& mesh, MeshController::Actions&& more);
  void ask_list(Actions& actions, const HostAddr& address, Host& host, const std::string& after = {});
  void hear(Actions& actions, const HostAddr& address, Host& host, Time now);
  void fall_silent(Actions& actions, const HostAddr& address, Host& host, const std::string& problem, Time now);
  void probe_all(Actions& actions, Time now);
  void begin_poll(Actions& actions, Time now);
  void on_probe(Actions& actions, const HostAddr& address, Host& host, const HostAnswer& answer, Time now);
  void on_list(Actions& actions, const HostAddr& address, Host& host, const ListNews& list, Time now);
  void on_mesh_answer(Actions& actions, const Question& question, const HostAnswer& answer, Time now);

  Options options_;
  std::shared_ptr<const std::set<HostAddr>> watched_;
  std::map<HostAddr, Host> hosts_;
  std::set<std::string> names_;
  std::set<std::string, std::less<>> held_;
  std::map<std::string, MeshController, std::less<>> meshes_;
  bool is_up_ = false;
  std::uint64_t polls_ = 0;
  std::uint64_t late_polls_ = 0;
  Time poll_due_;
  Time probe_due_;
};

}  // namespace meshbus

#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/lifecycle/proc_ending.h"
#include "agent/host/lifecycle/shutdown_queue.h"

namespace meshbus::host {

/// Which procs to end: all of this host, those of one owner, those of one mesh, or those of one
/// mesh as long as it has that owner.
struct DrainScope {
  std::string owner;  ///< A ProcId; empty: every owner.
  std::string mesh;   ///< Empty: every mesh.

  bool covers(std::string_view mesh_name, const ProcId& mesh_owner) const {
    return (mesh.empty() || mesh == mesh_name) &&
           (owner.empty() || owner == mesh_owner.to_string());
  }
  bool covers(const Mesh& of) const { return covers(of.name, of.ownership.owner()); }
  /// "all meshes", "mesh m-13Se1Maqzryj", "the meshes of unix:/run/x,client-2bGqGa6bY7cP"
  std::string words() const;
  friend bool operator==(const DrainScope&, const DrainScope&) = default;
};

/// What became of a drain.
struct DrainOutcome {
  std::size_t attempted = 0;
  std::size_t failed = 0;
  std::string detail;
};

/// Ends every proc in a scope, so many at a time, and waits for their descendants (spec 5.3).
/// Nothing of that scope may be started meanwhile. Lives on the reactor's thread.
class Drain {
 public:
  using Done = std::function<void(const DrainOutcome&)>;
  /// `done` may be null.
  Drain(Reactor& reactor, ProcTable& table, ProcEnding& ending, DrainScope scope, StopOrder order,
        std::size_t in_flight, Done done);
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  const DrainScope& scope() const noexcept { return scope_; }
  /// A second request for the same scope: hastens the drain, and gets the same outcome.
  void join(const StopOrder& order, std::size_t in_flight, Done done);
  void on_ended(const Proc& proc, bool ok);
  void on_empty(const Proc& proc) { lingering_.erase(proc.id); }
  /// Ends the next procs that there is room for. Call it at the end of each turn.
  void pump();
  bool is_done() const noexcept { return outcome_.has_value(); }
  /// Procs that have not ended yet.
  std::size_t left() const noexcept { return queue_.left(); }

 private:
  std::vector<Proc*> live_procs() const;
  void finish();

  Reactor& reactor_;
  ProcTable& table_;
  ProcEnding& ending_;
  DrainScope scope_;
  StopOrder order_;
  ShutdownQueue queue_;
  std::set<std::uint64_t> lingering_;  // ended, but with descendants
  std::vector<std::string> left_;      // what SIGKILL did not end, the first of it, in words
  Reactor::TimerId timer_ = 0;
  std::optional<DrainOutcome> outcome_;
  std::vector<Done> waiting_;
};

}  // namespace meshbus::host

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/src/base/handler_thread.h"
#include "client/src/monitors/mesh_facts.h"
#include "common/address/current_mesh.h"
#include "meshbus/proc_mesh_ref.h"

namespace meshbus {

/// How far one mesh has come: the table of its ranks and what was told of them. A MeshMonitor
/// writes it; any thread reads it, and waits for it to change.
///
/// Large because: each question about the facts takes the mutex here.
class MeshProgress {
 public:
  using Time = RankTable::Time;
  /// What the mutex guards.
  using Facts = MeshFacts;

  MeshProgress(const CurrentMesh& mesh, const HandlerThread& handlers);
  MeshProgress(const MeshProgress&) = delete;
  MeshProgress& operator=(const MeshProgress&) = delete;

  /// Calls it with the facts while nobody else sees them, then wakes those that wait. Returns what
  /// it returns.
  template <typename Function>
  auto change(Function function) {
    const Wake wake{changed_};
    const std::lock_guard lock(mutex_);
    return function(facts_);
  }

  /// A copy.
  RankTable table() const;
  MeshOutcome outcome() const;
  bool is_abandoned() const;
  bool is_handed_over() const;
  /// The host agent has taken the order to start its ranks.
  void note_accepted(std::uint64_t host_index);
  bool is_accepted(std::uint64_t host_index) const;
  /// Whether a host has ranks that are not terminal.
  bool is_alive_on(const HostAddr& host) const;
  /// Whether ranks move to that host, and it has not taken the order to start them.
  bool is_moving_to(const HostAddr& host) const;
  /// Whether that host is lost, and its ranks move to another one, or have moved.
  bool is_left(const HostAddr& host) const;
  /// Whether a host has ranks whose exit report has not come.
  bool has_unreported_on(const HostAddr& host) const;
  /// Whether this launcher answers for the mesh, and is not only about to.
  bool is_ours() const;
  /// Whether that host may be asked to renew the lease for `self`: while the mesh is being taken
  /// over, only one that names it as the owner.
  bool is_for(const std::string& self, const HostAddr& host) const;
  /// Whether nothing more is expected from the agents.
  bool is_over() const;
  /// Whether the mesh has ended for good.
  bool is_end_posted() const;
  /// The RestartPolicy, with what was used of its budget. Only with one.
  RestartPlan restart_plan(Time now) const;
  /// How often that rank was started again.
  std::uint64_t restarts_of(std::uint64_t rank) const;
  /// How that rank has ended, when it is known to have, and is not started again.
  std::optional<RankReport> end_of(std::uint64_t rank) const;
  /// Whether that incarnation is still wanted, and has not begun.
  enum class Start { wanted, unwanted, over };
  Start start_of(std::uint64_t rank, std::uint64_t restarts) const;

  // These wait. False at the deadline. Not on the reactor's thread.

  /// Waits until `done(table)`.
  bool wait(const std::function<bool(const RankTable&)>& done,
            std::chrono::milliseconds deadline) const;
  /// Has those that wait look at their conditions again. Any thread.
  void wake() const;
  /// Waits until `done(table)`, as long as something changes at least every `idle`.
  bool wait_while_changing(const std::function<bool(const RankTable&)>& done,
                           std::chrono::milliseconds idle) const;
  /// Waits until a failure, or the end, was told; for handlers: is known.
  bool wait_failure(std::chrono::milliseconds deadline) const;
  /// Waits until no update is expected of any rank and on_failure has run for each failure (when
  /// called from a handler: the first only).
  bool wait_settled(std::chrono::milliseconds deadline) const;
  /// Waits until everything is over and was told; for handlers: is over.
  bool wait_end(std::chrono::milliseconds deadline) const;

 private:
  /// Notifies when it goes, after the lock.
  struct Wake {
    std::condition_variable& changed;
    ~Wake() { changed.notify_all(); }
  };
  bool has_on(const HostAddr& host,
              bool (RankTable::*has)(std::uint64_t host_index) const noexcept) const;

  const CurrentMesh& mesh_;  // set() while mutex_ is held
  const HandlerThread& handlers_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Facts facts_;  // guarded by mutex_
};

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "agent/host/model/environment.h"
#include "agent/host/model/mesh_spec.h"
#include "common/loop/reactor.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {

/// What the ranks of one SpawnProcs share until they are started.
struct Assignment {
  MeshSpec spec;
  Environment environment;
};

/// How far the start of a proc is.
enum class SpawnProgress {
  queued,  ///< The proc waits for its turn.
  asked,   ///< The keeper was asked to start it.
  born,    ///< There is, or was, a process.
  none,    ///< There will never be a process.
};

/// The start of one proc: how far it is, and when each step was reached. Written by SpawnService
/// and LaunchMonitor; ProcEnding abandons it.
class ProcLaunch {
 public:
  ProcLaunch(std::shared_ptr<const Assignment> assignment, std::uint64_t rank)
      : assignment_(std::move(assignment)) {
    times_.mutate_rank(rank);
  }

  /// Null once the proc is born or will never be.
  const std::shared_ptr<const Assignment>& assignment() const noexcept { return assignment_; }
  SpawnProgress progress() const noexcept { return progress_; }
  bool is_queued() const noexcept { return progress_ == SpawnProgress::queued; }
  bool is_born() const noexcept { return progress_ == SpawnProgress::born; }
  /// When this agent was asked for the proc, or took it over, by this agent's clock.
  Reactor::Time requested_at() const noexcept { return requested_at_; }
  /// Whether the proc has sent ProcReady.
  bool has_said_ready() const noexcept { return has_said_ready_; }
  /// See schemas/ranks.fbs.
  const wire::LaunchTimes& times() const noexcept { return times_; }
  /// Whether the times are told to the owner: from then on they do not change.
  bool is_told() const noexcept { return is_told_; }

  void on_requested(Reactor::Time now, std::int64_t real_now_ns) {
    requested_at_ = now;
    times_.mutate_asked_ns(real_now_ns);
  }
  void on_taken_over(Reactor::Time now) noexcept { requested_at_ = now; }
  void on_asked() noexcept { progress_ = SpawnProgress::asked; }
  /// There is a process. Returns false when that was known already.
  bool on_born() {
    assignment_.reset();
    return std::exchange(progress_, SpawnProgress::born) != SpawnProgress::born;
  }
  void on_exec(std::int64_t spawned_ns, std::int64_t exec_ns) {
    times_.mutate_spawned_ns(spawned_ns);
    times_.mutate_exec_ns(exec_ns);
  }
  /// The proc has sent ProcReady, with its own account of two times (0: it gives none). Returns
  /// false when it had done so before.
  bool on_said_ready(std::int64_t connected_ns, std::int64_t hello_ns) {
    if (std::exchange(has_said_ready_, true)) return false;
    times_.mutate_connected_ns(connected_ns);
    times_.mutate_hello_ns(hello_ns);
    return true;
  }
  void on_ready(std::int64_t real_now_ns) { times_.mutate_ready_ns(real_now_ns); }
  /// Nothing more will be started for this proc.
  void abandon() {
    if (progress_ != SpawnProgress::born) progress_ = SpawnProgress::none;
    assignment_.reset();
  }
  void release_assignment() noexcept { assignment_.reset(); }
  /// Returns true the first time.
  bool mark_told() noexcept { return !std::exchange(is_told_, true); }
  /// Takes over what another agent has written down.
  void restore(const wire::LaunchTimes* times, bool is_told, bool has_said_ready,
               SpawnProgress progress) {
    if (times != nullptr) times_ = *times;
    is_told_ = is_told;
    has_said_ready_ = has_said_ready;
    progress_ = progress;
  }

 private:
  std::shared_ptr<const Assignment> assignment_;
  SpawnProgress progress_ = SpawnProgress::queued;
  Reactor::Time requested_at_{};
  bool has_said_ready_ = false;
  bool is_told_ = false;
  wire::LaunchTimes times_;
};

}  // namespace meshbus::host

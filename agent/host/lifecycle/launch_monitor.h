#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "agent/host/lifecycle/proc_ending.h"

namespace meshbus::host {

/// Follows procs from their birth until they are Ready, and fails those that are not ready in time
/// (spec 4.2). Lives on the reactor's thread.
class LaunchMonitor {
 public:
  struct Options {
    std::string host;                ///< For people.
    bool own_pid_namespace = false;  ///< The keeper's numbers of processes are not ours.
  };
  LaunchMonitor(Reactor& reactor, ProcTable& table, keeper::KeeperClient& keeper,
                ProcEnding& ending, OutputReader& outputs, InputWriter& inputs, Options options)
      : reactor_(reactor),
        table_(table),
        keeper_(keeper),
        ending_(ending),
        outputs_(outputs),
        inputs_(inputs),
        options_(std::move(options)) {}
  ~LaunchMonitor();
  LaunchMonitor(const LaunchMonitor&) = delete;
  LaunchMonitor& operator=(const LaunchMonitor&) = delete;

  /// For each proc that becomes Ready.
  void when_ready(std::function<void(Proc&)> handler) { on_ready_ = std::move(handler); }
  /// The ranks of this assignment must be ready within its limit, counted from now.
  void limit(const std::shared_ptr<const Assignment>& assignment);
  void on_birth(keeper::Birth birth);
  /// A mesh proc says that it is up, and since when it has been connected and greeted (nanoseconds
  /// since 1970, 0: it does not say).
  void on_said_ready(Proc& proc, std::int64_t connected_ns, std::int64_t hello_ns);

 private:
  void on_failed_birth(Proc& proc, const os::SpawnFailure& failure);
  /// A process that is in no ledger.
  void on_stray(const keeper::Birth& birth);
  void become_ready(Proc& proc);
  void check(const Assignment& assignment);
  void fail_unready(Proc& proc, std::chrono::milliseconds limit);

  Reactor& reactor_;
  ProcTable& table_;
  keeper::KeeperClient& keeper_;
  ProcEnding& ending_;
  OutputReader& outputs_;
  InputWriter& inputs_;
  Options options_;
  std::function<void(Proc&)> on_ready_;
  std::set<Reactor::TimerId> timers_;
};

}  // namespace meshbus::host

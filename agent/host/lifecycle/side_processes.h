#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/keeper/keeper_client.h"

namespace meshbus::host {

/// Processes that the keeper starts for this agent and that are no procs: those of execs. They are
/// contained as procs are. Those of another agent are killed. Lives on the reactor's thread.
class SideProcesses {
 public:
  /// What becomes of one. The object may be gone by the next call.
  struct Events {
    /// There is a process, or there is not.
    std::function<void(keeper::Birth)> on_birth;
    std::function<void(const keeper::Exit&)> on_exit;
    /// It and its descendants are dead; nothing follows.
    std::function<void()> on_gone;
  };

  explicit SideProcesses(keeper::KeeperClient& keeper) : keeper_(keeper) {}

  /// Returns its number. `process.id` is set here. Errors: those of KeeperClient::spawn().
  Result<std::uint64_t> start(os::SpawnSpec shared, os::ProcSpec process, Events events);
  /// For its process group. One that has ended is left alone.
  void signal(std::uint64_t id, int signal);
  /// Its stdin gets nothing more.
  void close_input(std::uint64_t id) { keeper_.close_input({id}); }
  /// Nobody waits for it any more: it is killed, and nothing is called.
  void drop(std::uint64_t id);

  /// Whether a number of the keeper means one of these.
  static bool is_one(std::uint64_t id) noexcept { return (id >> 63U) != 0; }
  void on_birth(keeper::Birth birth);
  void on_exit(const keeper::Exit& exit);
  void on_gone(const keeper::Gone& gone);

 private:
  Events* find(std::uint64_t id);

  keeper::KeeperClient& keeper_;
  std::unordered_map<std::uint64_t, Events> known_;
};

}  // namespace meshbus::host

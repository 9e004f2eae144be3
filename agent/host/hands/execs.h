#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/hands/exec.h"
#include "agent/host/model/proc_table.h"

namespace meshbus::host {

/// The execs of one host. Lives on the reactor's thread.
class Execs {
 public:
  struct Options {
    std::size_t most = 0;            ///< Execs at a time.
    Environment environment;         ///< What procs inherit.
    bool own_pid_namespace = false;  ///< The keeper's numbers of processes are not ours.
  };
  using Started = std::function<void(Result<std::uint32_t> pid)>;

  /// All but the options outlive it.
  Execs(Bus& bus, SideProcesses& processes, const ProcTable& table, Options options)
      : bus_(bus), processes_(processes), table_(table), options_(std::move(options)) {}

  /// `started` is called once, perhaps from inside. Errors: those of StartExec in the schema.
  void start(const Proc& proc, const ProcId& requester, const wire::StartExec& request,
             Started started);
  /// The exec of that requester; it has been heard. Null: there is none.
  Exec* find(std::uint64_t requester, std::uint64_t number);

  /// The end of each turn: ends the execs of ranks that have ended, and forgets those that are
  /// over.
  void check();
  /// The connection of that requester has ended.
  void drop(const ProcId& requester);
  bool has(const ProcId& requester) const;
  /// A message to the requester with that key came back. Returns it; nothing: it is none.
  std::optional<ProcId> on_undeliverable(std::uint64_t requester);
  /// There is a new session with the broker: what was under way may be lost.
  void on_up();

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  struct Entry {
    std::unique_ptr<Exec> exec;
    bool is_over = false;
  };

  /// What the keeper is to start.
  Result<os::SpawnSpec> make_spawn(const Proc& proc, const wire::StartExec& request) const;

  Bus& bus_;
  SideProcesses& processes_;
  const ProcTable& table_;
  Options options_;
  std::map<Key, Entry> execs_;  ///< By the key of the requester, and number.
};

}  // namespace meshbus::host

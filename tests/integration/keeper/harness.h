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

#include "agent/keeper/keeper_client.h"
#include "agent/os/lifeline.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/world/keeper_process.h"

namespace meshbus::test {

/// A real meshbus-keeper with the test as its warden and its agent.
class KeeperUnderTest {
 public:
  struct Options {
    bool cgroup = false;                    ///< By cgroup v2, which must be usable; else by sweep.
    std::vector<std::string> wrapper = {};  ///< What executes the keeper, if not we.
    std::vector<std::string> arguments = {};
  };
  explicit KeeperUnderTest(const Options& options);
  KeeperUnderTest() : KeeperUnderTest(Options{}) {}

  /// Starts one proc per entry of `procs` (ids are given out here, in order). Returns the first id.
  std::uint64_t spawn(os::SpawnSpec shared, std::vector<os::ProcSpec> procs);
  /// `sh -c SCRIPT`, `count` times, with stdout and stderr in pipes.
  std::uint64_t spawn_shell(const std::string& script, std::size_t count = 1);
  void signal(std::uint64_t id, int signal, bool group = false);
  /// The agent is gone and another one is there: what was told is forgotten here, and told again.
  void replace_agent();

  /// When what is waited for does not come, describe() is in the log.
  bool wait_births(std::size_t count);
  bool wait_exits(std::size_t count);
  bool wait_gone(std::size_t count);
  /// Reads a proc's stdout to its end.
  std::string read_stdout(std::uint64_t id);
  /// Handles what the keeper has sent so far.
  void pump();

  /// What was heard of, what the keeper is doing, and its children.
  std::string describe() const;

  keeper::KeeperClient& client() { return *client_; }
  Process& process() { return keeper_->process; }
  const os::Lifeline& lifeline() const { return keeper_->lifeline; }
  const std::string& cgroup() const { return cgroup_; }
  /// Our end of the lifeline and of the agent's socket.
  void drop_lifeline() { keeper_->lifeline.close(); }

  std::map<std::uint64_t, keeper::Birth> births;
  std::map<std::uint64_t, keeper::Exit> exits;
  std::set<std::uint64_t> gone;
  std::vector<std::string> disorder;  ///< Events that came twice, or too early.
  bool lost = false;
  bool replayed = false;

 private:
  void make_client(UniqueFd socket);
  bool wait_for(const std::function<bool()>& is_enough);

  std::string cgroup_;
  std::optional<KeeperProcess> keeper_;
  std::unique_ptr<keeper::KeeperClient> client_;
  std::uint64_t next_id_ = 1;
};

/// The environment of this process as a spec wants it.
std::vector<std::string> own_environment();
/// Containments that work here: sweep always, cgroup v2 where usable.
bool cgroup_is_usable();

/// What starts that command. The mesh has a name that is none for a directory.
os::SpawnSpec command(std::vector<std::string> argv);

/// This test program under another name, in `directory`: see keeper_stand_ins.cpp.
std::string stand_in(const TempDir& directory, const std::string& name);

/// A command line that leaves descendants of every unpleasant kind, each with `marker` in its
/// arguments: in a session of its own, double-forked, re-executed, deaf to SIGTERM, stopped. Each
/// ends by itself after five minutes.
std::string zoo_script(const std::string& marker);
/// A number of seconds that nobody else sleeps: unique to this call.
std::string make_marker();
/// How many processes one zoo_script() has at least, once it is complete.
inline constexpr std::size_t zoo_size = 6;

inline constexpr auto long_enough =
    std::chrono::seconds(30);  ///< For what should come at once, on a busy machine.

}  // namespace meshbus::test

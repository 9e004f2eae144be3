#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

/// What the tests of the `meshbus` command line share.
namespace meshbus::test {

/// Nothing is left so long after the end of a role (spec 4.7).
constexpr std::chrono::milliseconds cleaned_up(2000);

using Words = std::vector<std::string>;

/// The command line `meshbus WORDS...`.
Words cli(const Words& words);
/// `meshbus WORDS...`, to its end.
Finished run_cli(const Words& words, ProcessOptions options = {});

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
Words lines_of(std::string_view text);
Words sorted(Words lines);
/// "" when there is none.
std::string last_line(std::string_view text);
/// Fails the test case when it is no JSON.
nlohmann::json parse_json(const std::string& text);

/// A `sleep` that nobody else runs, which ends on its own before long.
std::string own_sleep();
/// The live processes that run exactly this.
std::vector<ProcessInfo> sleepers(const std::string& sleep);

/// The roles of one host.
struct Roles {
  pid_t warden = 0;
  pid_t keeper = 0;
  pid_t agent = 0;
  pid_t broker = 0;
  std::vector<pid_t> all() const { return {warden, keeper, agent, broker}; }
  std::string to_string() const;
};

/// The host below a warden, or nothing as long as it is not complete.
std::optional<Roles> find_roles(pid_t warden);
/// The hosts that a launcher has started, by pid of their wardens.
std::vector<pid_t> wardens_of(pid_t launcher);

/// The run directories of hosts of this test program, `.../host-XXXXXXXX`.
std::vector<std::filesystem::path> host_directories();
/// The directories of cgroup v2 that hosts with these run directories have made.
std::vector<std::filesystem::path> cgroups_of(
    const std::vector<std::filesystem::path>& host_directories);
/// The directories of cgroup v1 that limit their number of processes.
std::vector<std::filesystem::path> limits_of(
    const std::vector<std::filesystem::path>& host_directories);

/// All their directories of cgroup, in every hierarchy, and those of single procs below.
std::vector<std::filesystem::path> group_directories_of(
    const std::vector<std::filesystem::path>& host_directories);

/// The folder of the one mesh that has written to this `logs.directory`; beside it lie the event
/// logs of hosts.
std::filesystem::path mesh_folder_in(const std::filesystem::path& logs);

/// How long it took until the condition held, or nothing when it took longer than `deadline`.
std::optional<std::chrono::milliseconds> time_until(const std::function<bool()>& condition,
                                                    std::chrono::milliseconds deadline);

/// `meshbus host`, ready. It is stopped in order at the end of the scope.
class StandingHost {
 public:
  explicit StandingHost(const Words& options = {}, ProcessOptions process = {});
  ~StandingHost();

  /// As text: what --hosts takes.
  const std::string& address() const { return address_; }
  /// The ready line.
  const nlohmann::json& ready() const { return ready_; }
  Process& process() { return process_; }
  /// As the ready line says.
  Roles roles() const;

 private:
  Process process_;
  nlohmann::json ready_;
  std::string address_;
};

/// Ranks that sleep on standing hosts until they are stopped.
class SleepingJob {
 public:
  SleepingJob(const std::string& hosts, const std::string& name, std::size_t ranks);

  /// The launcher.
  Process& process() { return process_; }
  /// How many of them live.
  std::size_t left() const { return sleepers(sleep_).size(); }

 private:
  std::string sleep_ = own_sleep();
  Process process_;
};

/// A host whose broker and agent say nothing until the end of the scope.
class FrozenHost {
 public:
  explicit FrozenHost(const Roles& roles);
  ~FrozenHost();
  FrozenHost(const FrozenHost&) = delete;
  FrozenHost& operator=(const FrozenHost&) = delete;

 private:
  Roles roles_;
};

}  // namespace meshbus::test

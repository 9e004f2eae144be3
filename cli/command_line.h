#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/warden/warden.h"
#include "cli/host_list.h"
#include "meshbus/extent.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/rank_report.h"
#include "meshbus/status.h"

namespace meshbus::cli {

/// Exit code for a wrong command line (spec 12.2).
inline constexpr int kUsage = 2;
/// Exit code when meshbus itself failed.
inline constexpr int kOwnFailure = 125;
/// Exit code when nobody reads our output: as if SIGPIPE had ended us.
inline constexpr int kBrokenPipe = 128 + 13;

/// `meshbus host`
struct HostArguments {
  WardenOptions warden;
  /// Started from elsewhere.
  bool is_remote = false;
  /// TOKEN@ADDRESS each, or "-".
  std::vector<std::string> joins;
};

/// `meshbus run`
struct RunArguments {
  HostsSaid said;
  /// What that means (choose_run_hosts): so many hosts to be started on this machine, those of a list, or one on each machine of a list.
  enum class From { here, addresses, ssh, slurm } from = From::here;
  std::uint64_t hosts = 1;
  HostList list;
  /// -n: ranks in all, spread in blocks.
  std::optional<std::uint64_t> total;
  /// --per-host
  std::optional<Extent> per_host;
  bool mesh = false;
  std::uint32_t procs_per_process = 1;
  std::string name;
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<std::chrono::milliseconds> grace;
  bool keep_going = false;
  RestartPolicy restart;
  bool no_prefix = false;
  /// -x NAME (value of ours) or NAME=VALUE.
  std::vector<std::pair<std::string, std::string>> environment;
  /// none, all, or a rank.
  std::string input = "0";
  std::string json;
  bool report = false;
  std::string trace;
  std::string containment;
  /// Where `meshbus` is on other machines.
  std::string remote_program;
  std::vector<std::string> settings;
  /// --nice, --umask, --cpu-set, --rlimit
  ProcSettings proc_settings;
  std::vector<std::string> command;
};

/// `meshbus ps`, `ping`, `status`, `stop`, `drain`, `shutdown`, `watch`: on which hosts, and of which mesh.
struct HostsArguments {
  enum class Verb { ps, ping, stop, shutdown, logs, status, drain, why, talk, config, watch, spawn, controller };
  Verb verb = Verb::ps;
  HostsSaid said;
  /// stop, status, drain, watch: name of the mesh, with or without its uuid. Not for stop: empty = every mesh.
  std::string mesh;
  /// status, watch: the actors of that name instead of the procs.
  std::string actor;
  /// drain: a ProcId; empty = everybody.
  std::string owner;
  std::string reason;
  bool hold = false;
  bool resume = false;
  /// status
  std::optional<Status::Kind> wait;
  std::optional<std::chrono::milliseconds> grace;
  std::chrono::milliseconds timeout{30'000};
  bool is_timeout_given = false;
  bool all = false;
  /// ps
  bool wide = false;
  bool json = false;
};

/// `meshbus spawn`
struct SpawnArguments {
  HostsArguments hosts;
  std::string name;
  /// -n and --per-host, as with run.
  std::optional<std::uint64_t> total;
  std::optional<Extent> per_host;
  bool mesh = false;
  std::uint32_t procs_per_process = 1;
  std::vector<std::pair<std::string, std::string>> environment;
  ProcSettings proc_settings;
  /// A host, or the ProcId of a controller. Empty: the first one of these hosts that takes it.
  std::string controller;
  /// For a controller that is not there yet.
  bool waits = false;
  bool detach = false;
  std::vector<std::string> command;
};

/// `meshbus controller VERB`
struct ControllerArguments {
  enum class Verb { list, show, handover };
  Verb verb = Verb::list;
  HostsArguments hosts;
  /// show: empty = every mesh.
  std::string mesh;
  /// handover: as SpawnArguments::controller.
  std::string to;
  bool waits = false;
  bool detach = false;
};

/// `meshbus logs`
struct LogsArguments {
  HostsArguments hosts;
  /// Empty: the only one there is.
  std::string mesh;
  RankSet ranks;
  /// None: as many as hosts keep in memory.
  std::optional<std::uint64_t> tail;
  bool follow = false;
  bool fold = false;
  bool out = false;
  bool err = false;
  bool raw = false;
};

/// `meshbus why`
struct WhyArguments {
  HostsArguments hosts;
  /// A mesh, a rank, or a proc. Empty: the mesh that something happened to last.
  std::string target;
  RankSet ranks;
};

/// `meshbus call`, `cast`
struct TalkArguments {
  HostsArguments hosts;
  bool is_call = true;
  /// See selector.h.
  std::string selector;
  /// A port; of actors: a message.
  std::string to;
  std::string actor;
  /// "-": stdin.
  std::string body;
  bool raw = false;
  /// A reducer; empty: every answer by itself.
  std::string reduce;
};

/// `meshbus config`
struct ConfigArguments {
  std::vector<std::string> settings;
  /// Of live procs instead: which ones (selector.h), and what to change there, KEY=VALUE.
  std::string ranks;
  std::vector<std::string> changes;
  HostsArguments hosts;
};

/// `meshbus context VERB`
struct ContextArguments {
  enum class Verb { add, list, show, use, remove };
  Verb verb = Verb::list;
  /// use: empty = none.
  std::string name;
  HostsSaid said;
  /// KEY=VALUE
  std::vector<std::string> settings;
  bool replace = false;
  bool json = false;
};

/// `meshbus keygen`
struct KeygenArguments {
  /// observer, client, operator, host
  std::string role;
  std::vector<std::string> names;
  /// Empty: keys.directory, or where keys are looked for without it.
  std::string directory;
  bool if_missing = false;
  bool rotate = false;
  bool retire = false;
  /// No key, but a token for a new host that is to make its own.
  bool token = false;
  /// With it: the host that takes it, and for how long.
  std::string at;
  std::chrono::milliseconds valid_for = std::chrono::minutes(10);
  bool json = false;
};

/// `meshbus mesh VERB`: texts to read, nothing else.
struct MeshArguments {
  enum class Verb { show, ranks, slice, group, merge };
  Verb verb = Verb::show;
  /// A region; slice: a reference to hosts; merge: an overlay.
  std::string text;
  /// group: a label; merge: the overlay that wins.
  std::string other;
  /// slice: LABEL=I or LABEL=[B]:[E][:STEP], applied in order.
  std::vector<std::string> slices;
  bool json = false;
};

/// `meshbus tap`
struct TapArguments {
  /// Empty: the only one of this user on this machine.
  std::string host;
  std::string filter;
  /// Bytes to copy of each body.
  std::uint32_t bodies = 0;
  std::optional<std::uint64_t> count;
  /// Files to write to, to show, to send again; empty: none.
  std::string write;
  std::string read;
  std::string replay;
  /// replay: the address of a host.
  std::string into;
  /// replay: how many times as fast as it was; 0 = at once.
  double speed = 1;
  bool json = false;
};

/// `meshbus bench VERB`
struct BenchArguments {
  /// The last two are the processes that the others start.
  enum class Verb { rtt, throughput, fanout, cast, link, peers, end, crowd, member };
  Verb verb = Verb::rtt;
  /// Running ones; empty: brokers of its own.
  std::vector<std::string> hosts;
  std::vector<std::size_t> sizes;
  /// Round trips, or messages to all.
  std::size_t count = 0;
  std::chrono::milliseconds duration{1000};
  std::size_t peers = 0;
  bool flush = false;
  /// Of own brokers: linked by unix sockets, not by tcp.
  bool is_unix = false;
  /// Of own brokers: linked by tcp with keys.
  bool is_curve = false;
  std::optional<int> cpu;
  bool json = false;
  std::string endpoint;
  std::size_t quarter = 0;
  std::uint64_t seed = 0;
  std::size_t begin = 0;
};

struct VersionArguments {
  bool json = false;
};

using Arguments = std::variant<HostArguments, RunArguments, SpawnArguments, ControllerArguments, HostsArguments, LogsArguments,
                               WhyArguments, TalkArguments, ConfigArguments, ContextArguments, KeygenArguments, MeshArguments, TapArguments,
                               BenchArguments, VersionArguments>;

/// What the words mean; or, when there is nothing to run (help, a mistake: then it has been said on stderr), the exit code.
std::variant<Arguments, int> parse_command_line(int argc, char** argv);

}  // namespace meshbus::cli

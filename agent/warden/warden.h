#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace meshbus {

/// How the descendants of procs are kept together so that none outlives its proc (spec 4.7).
enum class Containment {
  automatic,  ///< cgroup where it works, else sweep. MESHBUS_CONTAINMENT=auto|cgroup|pidns|sweep
              ///< overrides.
  cgroup,     ///< cgroup v2, or an error.
  pid_namespace,  ///< The keeper is process 1 of a pid namespace, or an error. Needs CAP_SYS_ADMIN.
                  ///< All dies with it, whatever else dies.
  sweep,          ///< Subreapers and the process table only.
};

/// The file in a host's run directory that says, in a line, by which address it is known; the
/// broker's socket is beside it.
inline constexpr const char* kHostAddressFile = "address";

/// What a host is started with.
/// Large because: it is the command line of `meshbus host`.
struct WardenOptions {
  std::string advertise;  ///< HostAddr as text; empty: `unix:` + a socket in the run directory.
  /// Further addresses for the broker; empty: it binds what it advertises.
  std::vector<std::string> binds;
  bool insecure = false;    ///< Passed to the broker: plain tcp without CURVE.
  std::string broker_user;  ///< The broker of root goes on as that user; empty: as root.
  /// One JSON line is written here (ready or error), then it is closed. -1: none.
  int ready_fd = -1;
  /// The launcher's lifeline; its end = the launcher is gone: stop within 2 s. -1: none.
  int lifeline_fd = -1;
  /// From `stop` to SIGKILL of the procs on an orderly end.
  std::chrono::milliseconds grace{10'000};
  std::string run_dir;  ///< Where per-host directories are made; empty: $XDG_RUNTIME_DIR/meshbus or
                        ///< /tmp/meshbus-UID.
  Containment containment = Containment::automatic;
  /// Else the agent is restarted, 5 times within 60 s, and its procs do not notice.
  bool end_on_agent_loss = false;
  /// Processes that procs and their descendants may be; 0: no limit.
  std::uint64_t pids_limit = 0;
  /// When it cannot be had the host does not start; else it says so.
  bool pids_limit_is_needed = false;
  std::chrono::milliseconds frozen_limit{30'000};  ///< A role without a sign of life for so long is
                                                   ///< looked at, and ended when frozen. 0: never.
  std::string events_directory;  ///< Where the event log stays when the host is gone; empty: in its
                                 ///< run directory, and it goes with it.
  std::vector<std::string> settings;  ///< KEY=VALUE, forwarded to broker and agent as --set.
  /// Contents by path: written below keys/ in the run directory, as keys.directory of this host,
  /// and gone with it. own.key is its own.
  std::vector<std::pair<std::string, std::string>> key_files;
  /// A listening socket for the metrics of this host, and its address; -1: none are served.
  int metrics_fd = -1;
  std::string metrics_address;
  std::string metrics_url;   ///< For the ready line.
  bool print_ready = false;  ///< Write the ready line to stdout too.
  /// Where meshbus-keeper, -broker and -agent are; empty: beside /proc/self/exe.
  std::filesystem::path libexec;
};

/// Runs a host: parent of keeper, broker and agent until it ends. Call it on the main thread of a
/// single-threaded process that exists for this: it takes over signals, becomes a subreaper, and
/// ends every child that it did not have before. Returns the process exit code: 0 after an orderly
/// end, the code that the agent gave with `shutdown`, 70 when a role was lost, or another sysexits
/// code when the host could not start (one line on stderr and {"error": ...} on ready_fd say why).
int run_warden(const WardenOptions& options);

}  // namespace meshbus

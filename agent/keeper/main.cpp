// meshbus-keeper: spawns and reaps the procs of one host. Started by the warden, not by people.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "agent/keeper/keeper.h"
#include "agent/os/daemon_protection.h"
#include "common/base/quantity.h"

namespace {

using meshbus::UniqueFd;
using meshbus::keeper::KeeperOptions;

constexpr int kSysexitUsage = 64;

// An error message, or nothing when the arguments are good.
std::string parse_arguments(int argc, char** argv, KeeperOptions& options) {
  std::string containment = "sweep";
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 >= argc) return std::string(name) + " needs a value";
    const std::string value = argv[i + 1];
    const std::string bad = std::string(name) + ": bad value '" + value + "'";
    if (name == "--lifeline-fd" || name == "--agent-fd" || name == "--lock-fd") {
      const auto fd = meshbus::parse_whole<int>(value);
      // Close-on-exec again, now that it has come through ours: no proc may hold it.
      if (!fd || *fd < 3 || ::fcntl(*fd, F_SETFD, FD_CLOEXEC) != 0)
        return bad + ", expected an inherited descriptor";
      (name == "--agent-fd"  ? options.agent
       : name == "--lock-fd" ? options.lock
                             : options.lifeline) = UniqueFd(*fd);
    } else if (name == "--run-dir") {
      options.run_dir = value;
    } else if (name == "--containment") {
      if (value != "cgroup" && value != "pidns" && value != "sweep")
        return bad + ", expected cgroup, pidns or sweep";
      containment = value;
    } else if (name == "--cgroup") {
      options.cgroup = value;
    } else if (name == "--limit") {
      if (!options.limits.read_text(value)) return bad + ", expected CONTROLLER:VERSION:PATH";
    } else if (name == "--process-tag") {
      const auto process_tag = meshbus::parse_whole(value);
      if (!process_tag) return bad + ", expected a number";
      options.process_tag = *process_tag;
    } else if (name == "--oom-score") {
      options.oom_score = meshbus::parse_whole<int>(value);
      if (!options.oom_score) return bad + ", expected a number";
    } else {
      return "unknown option '" + std::string(name) + "'";
    }
  }
  if (!options.lifeline || !options.agent)
    return "--lifeline-fd and --agent-fd are needed: this program is started by meshbus host";
  if (containment == "cgroup" && options.cgroup.empty())
    return "--containment cgroup needs --cgroup DIR";
  if (containment != "cgroup") options.cgroup.clear();
  options.pid_namespace = containment == "pidns";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  KeeperOptions options;
  if (const std::string error = parse_arguments(argc, argv, options); !error.empty()) {
    std::fprintf(stderr, "meshbus-keeper: %s\n", error.c_str());
    return kSysexitUsage;
  }
  options.release = MESHBUS_VERSION;
  meshbus::os::forbid_dumps();
  return meshbus::keeper::Keeper(std::move(options)).run();
}

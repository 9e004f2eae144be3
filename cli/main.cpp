#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "agent/os/cgroup_placement.h"
#include "agent/warden/warden.h"
#include "cli/bench_command.h"
#include "cli/command_line.h"
#include "cli/config_command.h"
#include "cli/context_command.h"
#include "cli/controller_command.h"
#include "cli/hosts_command.h"
#include "cli/join_command.h"
#include "cli/keygen_command.h"
#include "cli/logs_command.h"
#include "cli/mesh_command.h"
#include "cli/remote_host.h"
#include "cli/run_hosts.h"
#include "cli/run_job.h"
#include "cli/spawn_command.h"
#include "cli/talk_command.h"
#include "cli/tap_command.h"
#include "cli/why_command.h"
#include "common/base/standard_streams.h"

namespace {

using namespace meshbus;

int print_version(const cli::VersionArguments& arguments) {
  std::printf(arguments.json ? "{\"version\": \"%s\"}\n" : "meshbus %s\n", MESHBUS_VERSION);
  return 0;
}

struct Verbs {
  int operator()(cli::HostArguments arguments) const {
    auto& options = arguments.warden;
    if (arguments.is_remote) {
      if (const auto code = cli::prepare_remote(options)) return *code;
    }
    if (const auto code = cli::join_hosts(arguments)) return *code;
    cli::apply_settings(options);
    return run_warden(options);
  }
  int operator()(cli::RunArguments arguments) const {
    if (const auto code = cli::choose_run_hosts(arguments)) return *code;
    // cgroup v2 limits nothing beside us: a host that we start could not move us out of its way.
    const auto& limits = arguments.proc_settings;
    std::optional<os::RolesLeafScope> aside;
    if (arguments.from == cli::RunArguments::From::here) aside.emplace(limits.memory_limit || limits.pids_limit || limits.cpu_limit);
    return cli::run_job(arguments);
  }
  int operator()(const cli::SpawnArguments& arguments) const { return cli::spawn_command(arguments); }
  int operator()(const cli::ControllerArguments& arguments) const { return cli::controller_command(arguments); }
  int operator()(const cli::HostsArguments& arguments) const { return cli::hosts_command(arguments); }
  int operator()(const cli::LogsArguments& arguments) const { return cli::logs_command(arguments); }
  int operator()(const cli::WhyArguments& arguments) const { return cli::why_command(arguments); }
  int operator()(const cli::TalkArguments& arguments) const { return cli::talk_command(arguments); }
  int operator()(const cli::ConfigArguments& arguments) const { return cli::config_command(arguments); }
  int operator()(const cli::ContextArguments& arguments) const { return cli::context_command(arguments); }
  int operator()(const cli::KeygenArguments& arguments) const { return cli::keygen_command(arguments); }
  int operator()(const cli::MeshArguments& arguments) const { return cli::mesh_command(arguments); }
  int operator()(const cli::BenchArguments& arguments) const { return cli::bench_command(arguments); }
  int operator()(const cli::TapArguments& arguments) const { return cli::tap_command(arguments); }
  int operator()(const cli::VersionArguments& arguments) const { return print_version(arguments); }
};

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  try {
    auto parsed = cli::parse_command_line(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    return std::visit(Verbs(), std::get<cli::Arguments>(parsed));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "meshbus: %s\n", error.what());
    return cli::kOwnFailure;
  }
}

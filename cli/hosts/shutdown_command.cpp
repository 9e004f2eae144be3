#include "cli/hosts/shutdown_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

struct ShutdownArguments {
  HostChoice hosts;
  std::optional<std::chrono::milliseconds> grace;
};

int shutdown(const ShutdownArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto orders = act_on_all<ShutdownSummary>(hosts, [&](HostMesh& part) {
    return part.shutdown(hosts.left, arguments.grace, "meshbus shutdown");
  });
  int code = 0;
  ShutdownSummary all;
  for (const auto& order : orders) {
    if (!order.outcome) {
      complain(order.was_silent ? "host " + order.hosts.front().to_string() +
                                      " not shut down: it does not answer"
                                : order.outcome.error().to_string());
      code = kFailed;
      continue;
    }
    all.hosts += order.outcome->hosts;
    all.attempted += order.outcome->attempted;
    all.ok += order.outcome->ok;
    all.failed += order.outcome->failed;
  }
  if (all.hosts == 0) return code;
  if (arguments.hosts.json) {
    std::cout << dump({{"hosts", all.hosts},
                       {"attempted", all.attempted},
                       {"ok", all.ok},
                       {"failed", all.failed}})
              << "\n";
  } else {
    std::cout << all.hosts << (all.hosts == 1 ? " host is" : " hosts are") << " down; " << all.ok
              << " of " << all.attempted << " procs ended\n";
  }
  return all.failed == 0 ? code : kFailed;
}

}  // namespace

void add_shutdown(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ShutdownArguments>();
  auto& verb = commands.add(app, "shutdown",
                            {.meaning = "Stop all procs of hosts, then the hosts themselves",
                             .examples = {"shutdown", "shutdown --hosts tcp:node[1-4]:7420"},
                             .exit_codes = "0 all hosts are down; 1 one is not"},
                            [arguments] { return shutdown(*arguments); });
  add_host_choice(verb, arguments->hosts);
  add_grace(verb, arguments->grace);
}

}  // namespace meshbus::cli

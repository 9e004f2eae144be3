#include "cli/hosts/shutdown_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <iostream>

#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

struct ShutdownArguments {
  HostChoice hosts;
  std::optional<std::chrono::milliseconds> grace;
};

int shutdown(const ShutdownArguments& arguments) {
  const auto found = find_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&found)) return *code;
  if (std::get<FoundHosts>(found).addresses.empty()) return no_host();
  auto context = std::get<FoundHosts>(found).make_context();
  if (!context) {
    complain(context.error().to_string());
    return kUsage;
  }
  int code = 0;
  std::size_t count = 0;
  ShutdownSummary all;
  for (const auto& part : std::get<FoundHosts>(found).parts()) {
    auto mesh = attach(*context, part, arguments.hosts, Need::all);
    auto summary =
        mesh ? mesh->shutdown(arguments.hosts.timeout, arguments.grace, "meshbus shutdown")
             : Result<ShutdownSummary>(fail(mesh.error()));
    if (!summary) {
      complain(summary.error().to_string());
      code = 1;
      continue;
    }
    count += part.addresses.size();
    all.hosts += summary->hosts;
    all.attempted += summary->attempted;
    all.ok += summary->ok;
    all.failed += summary->failed;
  }
  if (count == 0) return code;
  if (arguments.hosts.json) {
    std::cout << dump({{"hosts", all.hosts},
                       {"attempted", all.attempted},
                       {"ok", all.ok},
                       {"failed", all.failed}})
              << "\n";
  } else {
    std::cout << count << (count == 1 ? " host is" : " hosts are") << " down; " << all.ok << " of "
              << all.attempted << " procs ended\n";
  }
  return all.failed == 0 ? code : 1;
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

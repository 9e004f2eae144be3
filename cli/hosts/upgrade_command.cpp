#include "cli/hosts/upgrade_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/hosts/upgrade_order.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "cli/support/upgrade_text.h"
#include "client/src/context/context_core.h"
#include "mesh/text.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Prints what came of one host. Returns whether its programs are replaced.
bool show_upgrade(const HostAddr& host, const Result<HostReport>& outcome, bool is_json,
                  Json& json) {
  const bool is_done = outcome && outcome->upgrade->outcome == HostUpgradeReport::Outcome::done;
  std::string error;
  if (!outcome) {
    error = outcome.error().to_string();
  } else if (!is_done) {
    error = "host " + host.to_string() + " is not upgraded: " + outcome->upgrade->detail +
            (outcome->upgrade->outcome == HostUpgradeReport::Outcome::rolled_back
                 ? "; its broker and agent are those of before, started again"
                 : "");
  }
  if (!error.empty()) complain(error);
  if (is_json) {
    json.push_back({{"host", host.to_string()},
                    {"upgrade", outcome ? upgrade_json(*outcome->upgrade) : Json(nullptr)},
                    {"roles", outcome ? roles_json(outcome->roles) : Json::array()},
                    {"error", error.empty() ? Json(nullptr) : Json(error)}});
  } else if (is_done) {
    std::cout << "host " << host << "  " << text::visible(releases_text(outcome->roles))
              << "; broker and agent are those in " << text::visible(outcome->upgrade->programs)
              << std::endl;
  }
  return is_done;
}

/// Hosts of this machine that nobody named may be those of `meshbus run`, which end with their job
/// and need no upgrade then. A host that was killed is still there.
bool has_ended(const HostAddr& host, const FoundHosts& chosen) {
  if (chosen.local.empty()) return false;
  const auto now = local_hosts();
  return std::none_of(now.begin(), now.end(),
                      [&host](const LocalHost& one) { return one.address == host; });
}

CLI::Option* add_programs(CLI::App& verb, std::string& programs) {
  return verb
      .add_option("--programs", programs,
                  "Folder on the hosts with the new programs; default: where theirs are, whose "
                  "files are new after an update of the package")
      ->type_name("FOLDER")
      ->check([](const std::string& text) {
        return text.starts_with('/') ? std::string() : "an absolute path is needed";
      });
}

}  // namespace

int upgrade_hosts(const UpgradeArguments& arguments) {
  const auto found = find_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&found)) return *code;
  const auto& chosen = std::get<FoundHosts>(found);
  if (chosen.addresses.empty()) return no_host();
  auto context = chosen.make_context();
  if (!context) {
    complain(error_words(context.error()));
    return kUsage;
  }
  Json json = Json::array();
  std::size_t done = 0;
  const auto& core = context->core();
  for (const auto& host : chosen.addresses) {
    UpgradeOrder order(core->connect(core, host), host, arguments.programs,
                       [&host, &chosen] { return has_ended(host, chosen); });
    const auto outcome = order.run(arguments.hosts.timeout);
    ++done;
    if (!outcome && has_ended(host, chosen)) continue;
    if (show_upgrade(host, outcome, arguments.hosts.json, json)) continue;
    --done;
    break;
  }
  if (arguments.hosts.json) std::cout << dump(json, 2) << "\n";
  const auto left = chosen.addresses.size() - done;
  if (left == 0) return 0;
  // Programs that do not do on one host are not tried on the others.
  if (left > 1)
    complain("stopped there: " + std::to_string(left - 1) +
             (left == 2 ? " host was" : " hosts were") + " not asked");
  return kFailed;
}

void add_upgrade_flags(CLI::App& verb, bool& is_upgrade, UpgradeArguments& arguments) {
  const auto others = verb.get_options();
  auto* const upgrade = verb.add_flag(
      "--upgrade", is_upgrade,
      "Start no host, but replace the daemons of yours on this machine: see meshbus upgrade");
  add_programs(verb, arguments.programs)->needs(upgrade);
  for (auto* const other : others) {
    if (other != verb.get_help_ptr()) upgrade->excludes(other);
  }
}

void add_upgrade(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<UpgradeArguments>();
  auto& verb = commands.add(
      app, "upgrade",
      {.meaning = "Replace the daemons of hosts by those of another release, while procs run",
       .examples = {"upgrade",
                    "upgrade --hosts tcp:node[1-4]:7420 --programs /opt/meshbus-0.2/bin"},
       .details =
           "On one host after the other, its broker, its agent and its server of metrics are "
           "replaced. "
           "Procs keep running, and neither output nor an exit code is lost. What does not become "
           "ready is taken back: the programs of before are started again, and hosts that follow "
           "are left alone. The warden (meshbus host) and the keeper, which hold the procs, stay "
           "at their release until the host is started again.",
       .exit_codes = "0 every host is upgraded; 1 one is not, and none after it"},
      [arguments] { return upgrade_hosts(*arguments); });
  add_host_choice(verb, arguments->hosts);
  add_programs(verb, arguments->programs);
}

}  // namespace meshbus::cli

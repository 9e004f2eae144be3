#include "cli/hosts/config_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <iostream>

#include "cli/hosts/proc_config_command.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/table.h"
#include "common/config/config.h"

namespace meshbus::cli {

namespace {

int config(const ConfigArguments& arguments) {
  if (!arguments.ranks.empty()) return proc_config(arguments);
  const auto config = load_config(arguments.settings);
  if (!config) {
    std::cerr << "meshbus: " << config.error().detail() << "\n";
    return kUsage;
  }
  for (const auto& warning : config->warnings()) std::cerr << "meshbus: " << warning << "\n";
  if (arguments.hosts.json) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& one : config->show())
      json.push_back({{"key", std::string(one.key)},
                      {"value", one.value},
                      {"source", one.source},
                      {"meaning", std::string(one.meaning)}});
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  Table table({{"KEY"}, {"VALUE"}, {"FROM"}, {"MEANING"}});
  for (const auto& one : config->show())
    table.add({std::string(one.key), one.value, one.source, std::string(one.meaning)});
  std::cout << table.text();
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ConfigArguments>();
  auto& verb = commands.add(
      app, "config",
      {.meaning =
           "List settings: value, source, meaning; also those of live procs, and change them",
       .examples = {"config", "config 'train[0-3]' --change log.level=debug"},
       .details =
           "Without RANKS: the settings of this command. With RANKS (see meshbus call --help): the "
           "settings that live mesh procs use and that can change while they run: terminate.grace, "
           "session.away, handler.stuck, message.limit and log.level.",
       .exit_codes = "0; 1 a rank did not answer, or refused a change, or there is no such mesh"},
      [arguments] { return config(*arguments); });
  add_host_choice(verb, arguments->hosts);
  auto* ranks = verb.add_option("RANKS", arguments->ranks, "Live procs: which ranks of which mesh");
  verb.add_option("--set", arguments->settings, "A setting of this command; may be given again")
      ->type_name("KEY=VALUE")
      ->excludes(ranks);
  verb.add_option("--change", arguments->changes, "A new value for these procs; may be given again")
      ->type_name("KEY=VALUE")
      ->needs(ranks);
}

}  // namespace meshbus::cli

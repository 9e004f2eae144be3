#include "cli/config_command.h"

#include <nlohmann/json.hpp>

#include <iomanip>
#include <iostream>

#include "cli/proc_config_command.h"
#include "cli/rank_json.h"
#include "common/config/config.h"

namespace meshbus::cli {

void apply_settings(WardenOptions& options) {
  ConfigSources sources = ConfigSources::of_process();
  for (const auto& text : options.settings) {
    if (auto setting = parse_setting(text)) sources.flags.push_back(std::move(*setting));
  }
  const auto config = Config::load(std::move(sources));
  if (!config) return;
  options.end_on_agent_loss = config->word(keys::agent_restart) == "end";
  options.pids_limit = config->count(keys::pids_limit);
  options.frozen_limit = config->duration(keys::frozen_limit);
  options.events_directory = config->path(keys::logs_directory);
  for (const auto& shown : config->show()) {
    if (shown.key == keys::pids_limit.info().name) options.pids_limit_is_needed = shown.source != "default";
  }
}

int config_command(const ConfigArguments& arguments) {
  if (!arguments.ranks.empty()) return proc_config_command(arguments);
  ConfigSources sources = ConfigSources::of_process();
  for (const auto& text : arguments.settings) {
    auto setting = parse_setting(text);
    if (!setting) {
      std::cerr << "meshbus: --set: " << setting.error().detail() << "\n";
      return kUsage;
    }
    sources.flags.push_back(std::move(*setting));
  }
  const auto config = Config::load(std::move(sources));
  if (!config) {
    std::cerr << "meshbus: " << config.error().detail() << "\n";
    return kUsage;
  }
  for (const auto& warning : config->warnings()) std::cerr << "meshbus: " << warning << "\n";
  if (arguments.hosts.json) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& one : config->show())
      json.push_back({{"key", std::string(one.key)}, {"value", one.value}, {"source", one.source}, {"meaning", std::string(one.meaning)}});
    std::cout << dump(json, 2) << "\n";
    return 0;
  }
  std::cout << std::left << std::setw(22) << "KEY" << std::setw(10) << "VALUE" << std::setw(14) << "FROM" << "MEANING\n";
  for (const auto& one : config->show())
    std::cout << std::left << std::setw(22) << one.key << std::setw(10) << one.value << std::setw(14) << one.source << one.meaning << "\n";
  return 0;
}

}  // namespace meshbus::cli

#include "cli/hosts/proc_config_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <map>

#include "cli/support/choose_mesh.h"
#include "cli/support/chosen_ranks.h"
#include "cli/support/exit_codes.h"
#include "cli/support/output_writer.h"
#include "cli/support/rank_json.h"
#include "cli/support/table.h"
#include "cli/support/text_error.h"
#include "common/config/config.h"
#include "meshbus/point.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;
/// By create rank.
using SettingsByRank = std::map<std::uint64_t, Result<std::vector<ProcSetting>>>;

void print_settings_json(const MeshReport& mesh, const SettingsByRank& answers) {
  Json list = Json::array();
  const auto extent = mesh.region.extent();
  for (const auto& [rank, answer] : answers) {
    const auto point = extent.point_of(rank);
    Json one = {{"rank", rank},
                {"point", point ? Json(point->to_string()) : Json(nullptr)},
                {"settings", nullptr},
                {"error", nullptr}};
    if (answer) {
      one["settings"] = Json::array();
      for (const auto& setting : *answer)
        one["settings"].push_back(
            {{"key", setting.key}, {"value", setting.value}, {"source", setting.source}});
    } else {
      one["error"] = {{"code", std::string(to_string(answer.error().code()))},
                      {"text", answer.error().detail()}};
    }
    list.push_back(std::move(one));
  }
  std::cout << dump({{"mesh", mesh.name}, {"ranks", list}}, 2) << "\n";
}

void print_settings(const MeshReport& mesh, const SettingsByRank& answers) {
  const auto prefixes = make_prefixes(base_of(mesh.name), mesh.region.extent());
  for (const auto& [rank, answer] : answers) {
    if (!answer) {
      complain(prefixes[rank] + answer.error().to_string());
      continue;
    }
    Table table({{""}, {""}, {""}});
    for (const auto& setting : *answer) table.add({setting.key, setting.value, setting.source});
    std::cout << table.text(prefixes[rank]);
  }
}

}  // namespace

int proc_config(const ConfigArguments& arguments) {
  std::vector<std::pair<std::string, std::string>> changes;
  for (const auto& text : arguments.changes) {
    auto setting = parse_setting(text);
    if (!setting) {
      complain("--change: " + setting.error().detail());
      return kUsage;
    }
    changes.push_back(std::move(*setting));
  }
  auto found = choose_views(arguments.ranks, arguments.hosts);
  if (const int* code = std::get_if<int>(&found)) return *code;
  auto& chosen = std::get<ChosenRanks>(found);
  auto& context = chosen.hosts.context;
  const auto limit = arguments.hosts.timeout;
  SettingsByRank answers;
  for (const auto& view : chosen.views) {
    auto told = changes.empty() ? context.settings(view, limit)
                                : context.change_settings(view, changes, limit);
    for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
      if (const auto rank = view.create_rank(ordinal))
        answers.emplace(*rank, told ? std::move((*told)[ordinal])
                                    : Result<std::vector<ProcSetting>>(fail(told.error())));
    }
  }
  arguments.hosts.json ? print_settings_json(chosen.mesh, answers)
                       : print_settings(chosen.mesh, answers);
  const auto is_fine = [](const auto& answer) { return answer.second.has_value(); };
  return std::all_of(answers.begin(), answers.end(), is_fine) ? 0 : 1;
}

}  // namespace meshbus::cli

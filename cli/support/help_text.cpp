#include "cli/support/help_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cli/support/command.h"
#include "cli/support/wrapped_text.h"

namespace meshbus::cli {
namespace {

/// Where the meanings begin.
constexpr std::size_t kColumn = 26;
constexpr std::size_t kLeastWidth = 50;
constexpr std::size_t kMostWidth = 100;

/// "  NAME       MEANING", the meaning on the next line when the name is long.
std::string entry(const std::string& name, const std::string& meaning, std::size_t width) {
  std::string text = "  " + name;
  if (text.size() + 2 > kColumn) {
    text += "\n" + std::string(kColumn, ' ');
  } else {
    text.append(kColumn - text.size(), ' ');
  }
  return text + wrapped(meaning, width, kColumn) + "\n";
}

/// "-n,--procs N", "[MESH]"
std::string name_of(const CLI::Option& option) {
  if (option.get_positional())
    return option.get_required() ? option.get_name(true) : "[" + option.get_name(true) + "]";
  std::string name = option.get_name(false, true);
  // CLI11 writes the form of a checked value behind a colon.
  auto type = option.get_type_name();
  for (const char* form : {":INT in ", ":UINT in ", ":{"}) type = type.substr(0, type.find(form));
  if (option.get_type_size() != 0 && !type.empty()) name += " " + type;
  return name;
}

/// The options of one group of CLI11.
HelpGroup options_of(const CLI::App& app, const std::string& group) {
  HelpGroup found{group, {}};
  for (const auto* option : app.get_options([&](const CLI::Option* one) {
         return !one->get_positional() && one->get_group() == group;
       }))
    found.entries.push_back({name_of(*option), option->get_description()});
  return found;
}

}  // namespace

std::string usage_text(const CLI::App& app) {
  std::string path = app.get_name();
  for (const auto* above = app.get_parent(); above != nullptr; above = above->get_parent())
    path = above->get_name() + " " + path;
  const bool has_verbs = !app.get_subcommands({}).empty();
  std::string usage = path + (has_verbs ? " COMMAND" : "") + " [OPTIONS]";
  for (const auto* option :
       app.get_options([](const CLI::Option* one) { return one->get_positional(); }))
    usage += " " + name_of(*option) + (option->get_expected_max() > 1 ? "..." : "");
  return usage + (app.get_prefix_command() ? " -- COMMAND [ARGUMENTS...]" : "");
}

std::vector<HelpGroup> help_groups(const CLI::App& app) {
  HelpGroup arguments{"Arguments", {}};
  for (const auto* option : app.get_options([](const CLI::Option* one) {
         return one->get_positional() && !one->get_description().empty();
       }))
    arguments.entries.push_back({option->get_name(true), option->get_description()});
  // The options that belong to no group come first.
  std::vector<HelpGroup> groups = {std::move(arguments), options_of(app, "Options")};
  for (const auto& group : app.get_groups()) {
    if (!group.empty() && group != "Options") groups.push_back(options_of(app, group));
  }
  HelpGroup verbs{"Commands", {}};
  for (const auto* verb : shown_commands(app))
    verbs.entries.push_back({verb->get_name(), verb->get_description()});
  groups.push_back(std::move(verbs));
  std::erase_if(groups, [](const HelpGroup& group) { return group.entries.empty(); });
  return groups;
}

std::string help_text(const CLI::App& app, std::size_t width) {
  width = std::clamp(width, kLeastWidth, kMostWidth);
  std::string text = wrapped(app.get_description(), width) + "\n\nUsage: " + usage_text(app) + "\n";
  for (const auto& group : help_groups(app)) {
    text += "\n" + group.title + ":\n";
    for (const auto& one : group.entries) text += entry(one.name, one.meaning, width);
  }
  if (!app.get_footer().empty()) text += "\n" + wrapped(app.get_footer(), width) + "\n";
  return text;
}

std::size_t help_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const auto width = columns == nullptr ? 0 : std::strtoul(columns, nullptr, 10);
  return width > 0 ? width : kMostWidth;
}

}  // namespace meshbus::cli

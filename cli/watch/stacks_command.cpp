#include "cli/watch/stacks_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/support/ask_stacks.h"
#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "client/src/stacks/stack_tree.h"

namespace meshbus::cli {
namespace {

/// What a look may take beyond finding the hosts; a thousand ranks take a second or two.
constexpr std::chrono::milliseconds kLookLimit{20'000};

struct StacksArguments {
  HostChoice hosts;
  MeshChoice meshes;
  bool is_main_only = false;
  bool is_kernel_only = false;
};

std::string seconds_text(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f s", static_cast<double>(time.count()) / 1000);
  return text;
}

/// Looks at one mesh; what is found as JSON. Returns the exit code.
int look(ReachedHosts& hosts, const MeantRanks& meant, const StacksArguments& arguments,
         nlohmann::ordered_json& json) {
  const auto by_host = live_ranks_by_host(meant.mesh->ranks, meant.ranks);
  if (by_host.empty()) {
    complain(meant.mesh->name + ": none of these ranks is alive");
    return kFailed;
  }
  const auto asked =
      ask_stacks(hosts.context, meant.mesh->name, by_host, arguments.is_kernel_only, kLookLimit);
  StackTree tree;
  for (const auto& answer : asked.answers) tree.add(answer);
  for (const auto& problem : asked.problems) complain(meant.mesh->name + ": " + problem);
  if (arguments.hosts.json) {
    json = {
        {"mesh", meant.mesh->name}, {"took_ms", asked.took.count()}, {"not_done", asked.problems}};
    json.update(tree.json());
  } else {
    const auto count = tree.ranks().size();
    std::cout << meant.mesh->name << ": " << count << (count == 1 ? " rank" : " ranks") << " on "
              << by_host.size() << (by_host.size() == 1 ? " host" : " hosts") << ", looked at in "
              << seconds_text(asked.took) << "\n"
              << tree.text(arguments.is_main_only);
  }
  return asked.problems.empty() ? 0 : kFailed;
}

int run(const StacksArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = choose_meshes(hosts.listing, arguments.meshes, Among::live);
  int code = meant.code;
  auto all = nlohmann::ordered_json::array();
  for (const auto& one : meant.all) {
    nlohmann::ordered_json json;
    code = std::max(code, look(hosts, one, arguments, json));
    if (!json.is_null()) all.push_back(std::move(json));
  }
  const bool is_list = arguments.meshes.is_all || is_pattern(arguments.meshes.selector);
  if (!arguments.hosts.json || code == kUsage || (all.empty() && !is_list)) return code;
  std::cout << dump(is_list ? all : all.front(), 2) << "\n";
  return code;
}

}  // namespace

void add_stacks(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<StacksArguments>();
  auto& verb = commands.add(
      app, "stacks",
      {.meaning = "Show where each thread of each rank is, merged over ranks; odd ones first",
       .examples = {"stacks train", "stacks 'train[3,7]'", "stacks --json train"},
       .exit_codes = "0 all hosts answered; 1 no such mesh, no live rank, or a host that did not"},
      [arguments] { return run(*arguments); });
  add_mesh_choice(verb, arguments->meshes,
                  "A live mesh, with or without its uuid, or ranks of it: train[0-5,7]; 'train*': "
                  "all of that pattern, and a list as JSON; default: the only mesh that there is");
  verb.add_flag("--main-only", arguments->is_main_only, "Only the first thread of each process");
  verb.add_flag("--kernel-only", arguments->is_kernel_only,
                "Only what the kernel says; no thread is stopped, not even for milliseconds");
  add_host_choice(verb, arguments->hosts);
}

}  // namespace meshbus::cli

#include "cli/run/spawn_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <iostream>

#include "cli/run/rank_map.h"
#include "cli/run/rank_options.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_controllers.h"
#include "cli/support/find_hosts.h"
#include "cli/support/name_problem.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct SpawnArguments {
  HostChoice hosts;
  std::string name;
  RankOptions ranks;
  RestartPolicy restart;
  /// A host, or the ProcId of a controller. Empty: the first one of these hosts that takes it.
  std::string controller;
  /// For a controller that is not there yet.
  bool waits = false;
  bool detach = false;
};

void print(const ProcMesh& mesh, const std::string& controller, bool is_json) {
  const auto name = mesh.ref().mesh().to_string();
  if (!is_json) {
    std::cout << name << ": " << mesh.size()
              << (mesh.size() == 1 ? " rank is up; " : " ranks are up; ") << controller
              << " answers for them\n";
    return;
  }
  Json ranks = Json::array();
  for (const auto& rank : mesh.known().ranks) ranks.push_back(rank_json(rank));
  const Json json = {{"mesh", name},
                     {"region", mesh.ref().region().to_string()},
                     {"controller", controller},
                     {"ranks", ranks},
                     {"binding", rank_map_json(mesh.ref(), mesh.bindings())}};
  std::cout << dump(json, 2) << "\n";
}

int spawn(const SpawnArguments& arguments, const std::vector<std::string>& command) {
  if (command.empty()) {
    complain("spawn what? Give a command: meshbus spawn NAME -- COMMAND ARGUMENTS...");
    return kUsage;
  }
  if (const auto problem = name_problem("NAME", arguments.name); !problem.empty()) {
    complain(problem);
    return kUsage;
  }
  auto attached = attach_hosts(arguments.hosts, Need::all);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  auto& [context, hosts, took, settings] = std::get<AttachedHosts>(attached);
  if (const auto problem = size_problem(arguments.ranks, hosts.hosts().size()); !problem.empty()) {
    complain(problem);
    return kUsage;
  }
  const auto limit = std::max(arguments.hosts.timeout - took, kLeastTime);
  const auto refuse = [](const Error& error) {
    complain(error_words(error));
    return 1;
  };
  // Without anybody to answer for them nothing is started at all.
  const auto chosen = choose_controller(context, hosts.hosts(), arguments.name,
                                        arguments.controller, {}, arguments.waits, limit);
  if (!chosen)
    return refuse(chosen.error().within(
        "no controller (meshbus-controller --hosts ... starts one, --controller ADDRESS "
        "names one) takes the mesh"));
  const auto controller = ProcId::parse(chosen->owner);
  if (!controller) return refuse(controller.error());

  // What fails from now on is the controller's to tell.
  Handlers handlers;
  handlers.on_failure = [](const RankReport&) {};
  const auto size = arguments.ranks.total.value_or(hosts.hosts().size());
  auto spec = arguments.ranks.make_spec(command);
  spec.restart = arguments.restart;
  auto mesh = arguments.ranks.per_host
                  ? hosts.spawn(arguments.name, *arguments.ranks.per_host, std::move(spec),
                                std::move(handlers))
                  : hosts.spawn_n(arguments.name, size, std::move(spec), std::move(handlers));
  if (!mesh) return refuse(mesh.error());
  if (arguments.ranks.shows_map) std::cerr << rank_map_text(mesh->ref(), mesh->bindings());
  std::cerr << binding_notes_text(mesh->bindings());
  if (auto done =
          mesh->handover(*controller, {.detach = arguments.detach, .lease = {}, .deadline = limit});
      !done) {
    complain(done.error().to_string());
    if (auto stopped = mesh->stop({.reason = "it could not be handed over"}); !stopped)
      complain(stopped.error().to_string());
    return 1;
  }
  print(*mesh, chosen->owner, arguments.hosts.json);
  return 0;
}

}  // namespace

void add_spawn(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<SpawnArguments>();
  auto& verb = commands.add(
      app, "spawn",
      {.meaning =
           "Start a command as a mesh of procs on running hosts, and leave it to a controller",
       .examples = {"spawn train -n 8 -- ./train.sh",
                    "spawn train --hosts tcp:node[1-4]:7420 --per-host gpu=4 -- ./train.sh",
                    "spawn web -n 4 --restart on-failure:5 --restart-window 10m -- ./serve"},
       .details =
           "The command comes last, after --. The ranks run on, and a controller "
           "(meshbus-controller) keeps them alive: when it is gone, and not back before their "
           "lease "
           "lapses, they are stopped, or live on with --detach. With --restart the controller "
           "starts ranks that fail again, and one that is started anew goes on with the budget. "
           "meshbus logs NAME shows what they "
           "write, meshbus why NAME how they ended, meshbus stop NAME ends them.",
       .exit_codes = "0 all ranks are up and the controller answers for them; 1 they are not, and "
                     "nothing runs, or no controller takes them"},
      [arguments, &commands] { return spawn(*arguments, commands.command()); });
  commands.takes_command(verb);
  add_host_choice(verb, arguments->hosts);
  verb.add_option("NAME", arguments->name, "Name of the mesh")->required();
  add_rank_options(verb, arguments->ranks);
  add_restart(verb, arguments->restart);
  verb.add_option(
          "--controller", arguments->controller,
          "Host of the controller; default: the first of the hosts whose controller takes it")
      ->type_name("ADDRESS");
  verb.add_flag("--wait-for-controller", arguments->waits,
                "Wait, at most for --timeout, for a controller that is not there yet or restarts");
  verb.add_flag("--detach", arguments->detach,
                "Let the ranks live on when their controller is gone for good");
}

}  // namespace meshbus::cli

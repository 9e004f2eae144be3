#include "cli/spawn_command.h"

#include <nlohmann/json.hpp>

#include <iostream>

#include "cli/find_controllers.h"
#include "cli/find_hosts.h"
#include "cli/rank_json.h"
#include "cli/text_error.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

ProcSpec make_spec(const SpawnArguments& arguments) {
  ProcSpec spec;
  spec.kind = arguments.mesh ? ProcKind::mesh : ProcKind::plain;
  spec.procs_per_process = arguments.procs_per_process;
  spec.command = arguments.command;
  spec.environment = arguments.environment;
  spec.settings = arguments.proc_settings;
  spec.grace = arguments.hosts.grace;
  return spec;
}

void print(const ProcMesh& mesh, const std::string& controller, bool is_json) {
  const auto name = mesh.ref().mesh().to_string();
  if (!is_json) {
    std::cout << name << ": " << mesh.size() << (mesh.size() == 1 ? " rank is up; " : " ranks are up; ") << controller
              << " answers for them\n";
    return;
  }
  Json ranks = Json::array();
  for (const auto& rank : mesh.known().ranks) ranks.push_back(rank_json(rank));
  const Json json = {{"mesh", name}, {"region", mesh.ref().region().to_string()}, {"controller", controller}, {"ranks", ranks}};
  std::cout << dump(json, 2) << "\n";
}

}  // namespace

int spawn_command(const SpawnArguments& arguments) {
  if (const auto name = Name::make(arguments.name); !name) {
    complain(name.error().within("NAME").to_string());
    return kUsage;
  }
  auto attached = attach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&attached)) return *code;
  auto& [context, hosts, took, settings] = std::get<AttachedHosts>(attached);
  const auto limit = std::max(arguments.hosts.timeout - took, least_time);
  const auto refuse = [](const Error& error) {
    complain(error.to_string());
    return 1;
  };
  // Without anybody to answer for them nothing is started at all.
  const auto chosen = choose_controller(context, hosts.hosts(), arguments.name, arguments.controller, {}, arguments.waits, limit);
  if (!chosen) return refuse(chosen.error().within("no controller (meshbus-controller --hosts ...) takes the mesh"));
  const auto controller = ProcId::parse(chosen->owner);
  if (!controller) return refuse(controller.error());

  // What fails from now on is the controller's to tell.
  Handlers handlers;
  handlers.on_failure = [](const RankReport&) {};
  const auto size = arguments.total.value_or(hosts.hosts().size());
  auto mesh = arguments.per_host ? hosts.spawn(arguments.name, *arguments.per_host, make_spec(arguments), std::move(handlers))
                                 : hosts.spawn_n(arguments.name, size, make_spec(arguments), std::move(handlers));
  if (!mesh) return refuse(mesh.error());
  if (auto done = mesh->handover(*controller, {.detach = arguments.detach, .lease = {}, .deadline = limit}); !done) {
    complain(done.error().to_string());
    if (auto stopped = mesh->stop({.reason = "it could not be handed over"}); !stopped) complain(stopped.error().to_string());
    return 1;
  }
  print(*mesh, chosen->owner, arguments.hosts.json);
  return 0;
}

}  // namespace meshbus::cli

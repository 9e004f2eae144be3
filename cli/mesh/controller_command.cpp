#include "cli/mesh/controller_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <optional>
#include <thread>

#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_controllers.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"
#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/proc_mesh/owner_survey.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "common/address/host_resource.h"
#include "meshbus/status.h"
#include "wire/bootstrap_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;
struct ControllerArguments {
  enum class Verb { list, show, handover, own, stop };
  Verb verb = Verb::list;
  HostChoice hosts{.timeout = std::chrono::seconds(10)};
  /// show: empty = every mesh.
  std::string mesh;
  /// handover, own, stop: a host, or the ProcId of a controller. Empty: the first one that takes
  /// the mesh or the hosts; for stop the only one.
  std::string to;
  bool waits = false;
  bool detach = false;
};

using Controllers = std::vector<wire::ControllerStateT>;

std::size_t owned(const wire::ControllerStateT& controller) {
  return static_cast<std::size_t>(std::count_if(controller.meshes.begin(), controller.meshes.end(),
                                                [](const auto& mesh) { return mesh->owned; }));
}

std::size_t live(const wire::ControllerStateT& controller) {
  return static_cast<std::size_t>(std::count_if(controller.meshes.begin(), controller.meshes.end(),
                                                [](const auto& mesh) { return mesh->live > 0; }));
}

std::string overall_of(const wire::MeshOverviewT& mesh) {
  return Status(static_cast<Status::Kind>(mesh.overall)).to_string();
}

Json mesh_json(const wire::MeshOverviewT& mesh) {
  Json json = {{"mesh", mesh.mesh},           {"overall", overall_of(mesh)},
               {"ranks", mesh.ranks},         {"live", mesh.live},
               {"unheard", mesh.unheard},     {"failed", mesh.failed},
               {"monitored", mesh.monitored}, {"owned", mesh.owned}};
  const auto* const owner = mesh.ownership.get();
  json["owner"] = owner == nullptr || owner->gone ? Json(nullptr) : Json(owner->owner);
  json["lease_ms"] =
      owner == nullptr || owner->lease_ms == 0 ? Json(nullptr) : Json(owner->lease_ms);
  json["detach"] = owner != nullptr && owner->loss == wire::OwnerLoss::detach;
  return json;
}

void print_json(const Controllers& controllers, bool with_meshes) {
  Json list = Json::array();
  for (const auto& controller : controllers) {
    Json json = {{"controller", controller.controller},   {"polls", controller.poll},
                 {"late_polls", controller.late_polls},   {"subscribers", controller.subscribers},
                 {"unreachable", controller.unreachable}, {"owned", owned(controller)},
                 {"live_meshes", live(controller)}};
    json["hosts"] = controller.hosts;
    const bool has_pair = !controller.pair.empty();
    json["pair"] = has_pair ? Json(controller.pair) : Json(nullptr);
    json["acts"] = !controller.stands_by;
    json["term"] = has_pair ? Json(controller.term) : Json(nullptr);
    json["meshes"] = with_meshes ? Json::array() : Json(controller.meshes.size());
    for (const auto& mesh : controller.meshes) {
      if (with_meshes) json["meshes"].push_back(mesh_json(*mesh));
    }
    list.push_back(std::move(json));
  }
  std::cout << dump(list, 2) << "\n";
}

void print_controller(const wire::ControllerStateT& controller) {
  const auto ended = controller.meshes.size() - live(controller);
  std::cout << "controller " << controller.controller << "  watches " << live(controller)
            << (controller.more ? "+" : "") << " live meshes"
            << (ended == 0 ? "" : ", " + std::to_string(ended) + " ended") << ", answers for "
            << owned(controller);
  if (!controller.hosts.empty()) std::cout << " and for " << controller.hosts.size() << " hosts";
  if (controller.stands_by) {
    std::cout << "; stands by (pair " << controller.pair << "), "
              << (controller.acting.empty() ? "none is known to act" : controller.acting + " acts");
  } else if (!controller.pair.empty()) {
    std::cout << "; acts (pair " << controller.pair << ", term " << controller.term << ")";
  }
  std::cout << "; " << controller.subscribers << " subscribers, " << controller.poll << " polls";
  if (controller.late_polls != 0) std::cout << ", " << controller.late_polls << " late";
  for (const auto& host : controller.unreachable) std::cout << "; " << host << " does not answer";
  std::cout << "\n";
}

void print_mesh(const wire::MeshOverviewT& mesh) {
  std::cout << "  " << std::left << std::setw(32) << mesh.mesh << " " << std::setw(10)
            << overall_of(mesh) << " " << mesh.live << " of " << mesh.ranks << " live"
            << (mesh.unheard == 0
                    ? ""
                    : " (" + std::to_string(mesh.unheard) + " on hosts that do not answer)")
            << ", " << mesh.failed << " failed; ";
  const auto* const owner = mesh.ownership.get();
  if (owner == nullptr || owner->gone) {
    std::cout << "nobody answers for it";
  } else {
    std::cout << (mesh.owned ? "its own" : "of " + owner->owner);
    if (owner->lease_ms != 0) std::cout << ", lease " << owner->lease_ms << " ms";
  }
  std::cout << "\n";
}

/// list, show
int look(ReachedHosts& hosts, const ControllerArguments& arguments) {
  auto controllers = ask_controllers(hosts.context, hosts.answered(), {}, hosts.left);
  const auto& word = arguments.mesh;
  for (auto& controller : controllers) {
    std::erase_if(controller.meshes, [&](const auto& mesh) { return !is_named(mesh->mesh, word); });
  }
  if (!word.empty())
    std::erase_if(controllers, [](const auto& controller) { return controller.meshes.empty(); });
  const bool with_meshes = arguments.verb == ControllerArguments::Verb::show;
  if (arguments.hosts.json) {
    print_json(controllers, with_meshes);
  } else {
    for (const auto& controller : controllers) {
      print_controller(controller);
      for (const auto& mesh : controller.meshes) {
        if (with_meshes) print_mesh(*mesh);
      }
    }
  }
  if (!controllers.empty()) return 0;
  complain(word.empty() ? "no controller answers at these hosts"
                        : "no controller of these hosts knows a mesh '" + word + "'");
  return 1;
}

/// By the controllers that answer for it on its hosts: several, when a handover before was done on
/// some of them only. What nobody answers for we give ourselves.
Result<void> give(Context& context, const MeshReport& mesh, const ProcId& to,
                  const wire::OfferAcceptedT& accepted, bool detach,
                  std::chrono::milliseconds limit) {
  auto way = context.core()->find_connection(context.core(), to.host());
  if (!way) return fail(way.error());
  const OwnerSurvey found(*way->get(), mesh.name, mesh.hosts,
                          std::chrono::steady_clock::now() + limit / 3);
  if (found.has_restarts() && !accepted.can_restart)
    return fail(ErrorCode::refused,
                "controller " + accepted.owner +
                    " is of a release that restarts no ranks, and mesh " + mesh.name +
                    " has a restart policy; start a newer meshbus-controller there");
  bool is_given = found.ownerless().empty() && !found.owners().empty();
  for (const auto& name : found.owners()) {
    // What was done before needs no order.
    if (name == accepted.owner && found.owners().size() > 1) continue;
    const auto owner = ProcId::parse(name);
    if (!owner || !(*owner == controller_of(owner->host()))) {
      is_given = false;
      continue;
    }
    wire::HandOverT order;
    order.mesh = mesh.name;
    order.owner = accepted.owner;
    order.lease_ms = accepted.lease_ms;
    order.loss = detach ? wire::OwnerLoss::detach : wire::OwnerLoss::lapse;
    const auto answer = (*way)->ask(Destination::to(*owner), std::move(order), limit).get();
    if (answer) continue;
    // It is gone, or does not answer for the mesh any more, and perhaps nobody does: the hosts
    // know.
    is_given = false;
    const auto code = answer.error().code();
    if (code != ErrorCode::not_exist && code != ErrorCode::no_such_proc &&
        code != ErrorCode::no_such_host)
      return fail(answer.error().within("controller " + name));
  }
  if (is_given) return {};
  const HandoverOptions options{.detach = detach, .lease = {}, .deadline = limit};
  return hand_over(*context.core(), *way->get(), mesh.name, mesh.hosts, to, options,
                   [](const HostAddr&) { return true; });
}

/// The controller that answers for a mesh, which has no need to be given it; empty: none does. One
/// that was started again under the same address does not.
std::string present_controller(ReachedHosts& hosts, const MeshReport& mesh) {
  const auto owner = ProcId::parse(mesh.owner);
  if (!owner || !(*owner == controller_of(owner->host()))) return {};
  const auto states = ask_controllers(hosts.context, {owner->host()}, mesh.name, hosts.left);
  const auto is_its_own = [&](const auto& known) {
    return known->mesh == mesh.name && known->owned;
  };
  for (const auto& state : states) {
    if (std::any_of(state.meshes.begin(), state.meshes.end(), is_its_own)) return mesh.owner;
  }
  return {};
}

int hand_over_mesh(ReachedHosts& hosts, const ControllerArguments& arguments) {
  const auto refuse = [](const Error& error) {
    complain(error.to_string());
    return 1;
  };
  const auto* const mesh = choose_mesh(hosts.listing, arguments.mesh, Among::all);
  if (mesh == nullptr) return 1;
  const auto accepted = choose_controller(
      hosts.context, mesh->hosts, mesh->name, arguments.to,
      arguments.to.empty() ? present_controller(hosts, *mesh) : "", arguments.waits, hosts.left);
  if (!accepted) return refuse(accepted.error());
  const auto to = ProcId::parse(accepted->owner);
  if (!to) return refuse(to.error());
  if (const auto done = give(hosts.context, *mesh, *to, *accepted, arguments.detach, hosts.left);
      !done)
    return refuse(done.error());
  if (arguments.hosts.json) {
    std::cout << dump({{"mesh", mesh->name}, {"controller", accepted->owner}}) << "\n";
  } else {
    std::cout << mesh->name << ": " << accepted->owner << " answers for it\n";
  }
  return 0;
}

int own_hosts(ReachedHosts& hosts, const ControllerArguments& arguments) {
  const auto refuse = [](const Error& error) {
    complain(error.to_string());
    return 1;
  };
  if (hosts.has_silent()) {
    complain("not every host answers, so nothing is done");
    return 1;
  }
  const auto all = hosts.all_hosts();
  const auto accepted = choose_controller(hosts.context, all, std::string(kHostResource),
                                          arguments.to, "", arguments.waits, hosts.left);
  if (!accepted) return refuse(accepted.error());
  const auto to = ProcId::parse(accepted->owner);
  if (!to) return refuse(to.error());
  const auto way = hosts.context.core()->find_connection(hosts.context.core(), to->host());
  if (!way) return refuse(way.error());
  const auto done = hand_hosts_over(
      *way->get(), all, *to, {.detach = arguments.detach, .lease = {}, .deadline = hosts.left});
  if (!done) return refuse(done.error());
  if (arguments.hosts.json) {
    Json list = Json::array();
    for (const auto& host : all) list.push_back(host.to_string());
    std::cout << dump({{"hosts", list}, {"controller", accepted->owner}}) << "\n";
  } else {
    std::cout << accepted->owner << " answers for " << all.size()
              << (all.size() == 1 ? " host\n" : " hosts\n");
  }
  return 0;
}

/// A controller that ends is asked so often whether it is there.
constexpr std::chrono::milliseconds kEndLook{100};

/// Whether what was asked is not there (any more), or its host is not.
bool has_ended(ErrorCode code) {
  switch (code) {
    case ErrorCode::not_exist:
    case ErrorCode::no_such_proc:
    case ErrorCode::no_such_host:
    case ErrorCode::unroutable: return true;
    default: return false;
  }
}

/// Waits until that controller answers no more.
bool wait_end(Connection& connection, const ProcId& controller, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  bool is_away = false;
  while (std::chrono::steady_clock::now() < end) {
    const auto answer =
        connection
            .ask(Destination::to(controller), wire::ListMeshesT(), std::chrono::milliseconds(1000))
            .get();
    const auto code = answer ? ErrorCode::none : answer.error().code();
    if (has_ended(code)) return true;
    // A broker that is lost once may have been restarted; one that stays away ended with the
    // controller.
    const bool is_cut = code == ErrorCode::host_unreachable || code == ErrorCode::fate_unknown;
    if (is_away && (is_cut || code == ErrorCode::timeout)) return true;
    is_away = !answer && (is_away || is_cut);
    std::this_thread::sleep_for(kEndLook);
  }
  return false;
}

int stop_controller(ReachedHosts& hosts, const ControllerArguments& arguments) {
  const auto refuse = [](const Error& error) {
    complain(error.to_string());
    return 1;
  };
  std::optional<ProcId> controller;
  if (!arguments.to.empty()) {
    const auto host = HostAddr::parse(arguments.to);
    const auto id = host ? Result<ProcId>(controller_of(*host)) : ProcId::parse(arguments.to);
    if (!id) return refuse(id.error());
    controller = *id;
  } else {
    const auto found = ask_controllers(hosts.context, hosts.answered(), {}, hosts.left);
    if (found.size() != 1) {
      complain(found.empty() ? "no controller answers at these hosts"
                             : "several controllers answer at these hosts; say which one");
      return 1;
    }
    const auto id = ProcId::parse(found.front().controller);
    if (!id) return refuse(id.error());
    controller = *id;
  }
  const auto way = hosts.context.core()->find_connection(hosts.context.core(), controller->host());
  if (!way) return refuse(way.error());
  wire::StopAndExitT stop;
  stop.reason = "meshbus controller stop";
  const auto answer =
      way->get()->ask(Destination::to(*controller), std::move(stop), hosts.left).get();
  if (!answer) return refuse(answer.error().within("controller " + controller->to_string()));
  if (!wait_end(*way->get(), *controller, hosts.left)) {
    complain("controller " + controller->to_string() + " ends, and has not ended yet");
    return 1;
  }
  if (arguments.hosts.json) {
    std::cout << dump({{"controller", controller->to_string()}, {"ended", true}}) << "\n";
  } else {
    std::cout << controller->to_string() << " has ended\n";
  }
  return 0;
}

int run(const ControllerArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  switch (arguments.verb) {
    case ControllerArguments::Verb::handover: return hand_over_mesh(hosts, arguments);
    case ControllerArguments::Verb::own: return own_hosts(hosts, arguments);
    case ControllerArguments::Verb::stop: return stop_controller(hosts, arguments);
    default: return look(hosts, arguments);
  }
}

}  // namespace

void add_controller(CLI::App& app, Commands& commands) {
  using Verb = ControllerArguments::Verb;
  auto& verbs = commands.add_group(
      app, "controller",
      {.meaning = "Show the controllers of hosts and their meshes; give them meshes and hosts",
       .examples = {"controller list", "controller handover train --to tcp:node2:7420"}});
  const auto add_verb = [&](Verb verb, const std::string& name, const Help& help) {
    const auto arguments = std::make_shared<ControllerArguments>();
    arguments->verb = verb;
    auto& one = commands.add(verbs, name, help, [arguments] { return run(*arguments); });
    add_host_choice(one, arguments->hosts);
    return std::pair<CLI::App&, ControllerArguments&>(one, *arguments);
  };
  const std::string codes = "0; 1 no controller, no such mesh, or it was not done";
  add_verb(Verb::list, "list",
           {.meaning = "List the controllers of these hosts",
            .examples = {"controller list"},
            .exit_codes = codes});
  auto [show, shown] =
      add_verb(Verb::show, "show",
               {.meaning = "Show the meshes that they watch, and which controller answers for each",
                .examples = {"controller show train"},
                .exit_codes = codes});
  show.add_option("MESH", shown.mesh, "Only this mesh, with or without its uuid");
  auto [handover, given] = add_verb(
      Verb::handover, "handover",
      {.meaning = "Give a mesh to another controller, also one that no controller answers for",
       .examples = {"controller handover train --to tcp:node2:7420"},
       .exit_codes = codes});
  handover.add_option("MESH", given.mesh, "Name of the mesh, with or without its uuid")->required();
  handover
      .add_option("--to", given.to,
                  "Host of the other controller; default: the first of the hosts whose controller "
                  "takes it")
      ->type_name("ADDRESS");
  handover.add_flag(
      "--wait-for-controller", given.waits,
      "Wait, at most for --timeout, for a controller that is not there yet or restarts");
  handover.add_flag("--detach", given.detach,
                    "Let the ranks live on when that controller is gone for good");
  auto [stop, stopped] =
      add_verb(Verb::stop, "stop",
               {.meaning = "End a controller in order: its meshes are stopped, and its hosts end",
                .examples = {"controller stop tcp:node1:7420 --timeout 1m"},
                .exit_codes = "0; 1 no controller, several, or it has not ended in time"});
  stop.add_option("CONTROLLER", stopped.to,
                  "Host of the controller, or its ProcId; default: the only one at these hosts");
  auto [own, owned] = add_verb(
      Verb::own, "own",
      {.meaning = "Give hosts to a controller: they end with it, and their procs with them",
       .examples = {"controller own --hosts tcp:node1:7420,tcp:node2:7420"},
       .exit_codes = "0; 1 no controller, a host that does not answer, or it was not done"});
  own.add_option("--to", owned.to,
                 "Host of the controller; default: the first of the hosts whose controller takes "
                 "them")
      ->type_name("ADDRESS");
  own.add_flag("--wait-for-controller", owned.waits,
               "Wait, at most for --timeout, for a controller that is not there yet or restarts");
  own.add_flag("--detach", owned.detach,
               "Let the hosts go on, without an owner, when that controller ends or is gone");
}

}  // namespace meshbus::cli

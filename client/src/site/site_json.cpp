#include <nlohmann/json.hpp>

#include "client/src/site/report_json.h"
#include "meshbus/site.h"

namespace meshbus {
namespace {

using Json = nlohmann::ordered_json;
using reports::time_text;

Json queue_json(const SiteQueue& queue) {
  return {{"peer", queue.peer},
          {"bytes", queue.bytes},
          {"messages", queue.messages},
          {"waits_ms", queue.waits.count()}};
}

Json broker_json(const std::optional<SiteBroker>& broker, double rate) {
  if (!broker) return nullptr;
  Json queues = Json::array();
  for (const auto& queue : broker->queues) queues.push_back(queue_json(queue));
  Json links = Json::array();
  for (const auto& link : broker->links) {
    links.push_back({{"host", link.host},
                     {"up", link.is_up},
                     {"messages", link.messages},
                     {"bytes", link.bytes}});
  }
  return {{"incarnation", broker->incarnation},
          {"received", broker->received},
          {"delivered", broker->delivered},
          {"returned", broker->returned},
          {"dropped", broker->dropped},
          {"refused", broker->refused},
          {"held", broker->held},
          {"peers", broker->peers},
          {"messages_per_second", rate},
          {"queues", std::move(queues)},
          {"links", std::move(links)}};
}

Json known_or_null(std::uint64_t value) {
  return value != 0 ? Json(value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json host_json(const SiteHost& host) {
  Json json;
  json["host"] = host.host.to_string();
  json["state"] = std::string(to_string(host.state));
  json["since"] = time_text(host.since);
  json["error"] = text_or_null(host.problem);
  json["node"] = host.report.node;
  json["refused"] = host.report.refused;
  json["pid"] = known_or_null(static_cast<std::uint64_t>(host.report.pid));
  json["incarnation"] = host.report.incarnation;
  json["version"] = host.report.version;
  json["containment"] = host.report.containment;
  json["cgroup"] = text_or_null(host.cgroup);
  json["started"] = host.started ? Json(time_text(*host.started)) : Json(nullptr);
  json["live"] = host.report.live;
  json["drains"] = reports::drains_json(host.report.drains);
  json["cpus"] = known_or_null(host.cpus);
  json["load"] = host.cpus != 0 ? Json(host.load) : Json(nullptr);
  json["memory"] = known_or_null(host.memory);
  json["memory_available"] = known_or_null(host.memory_available);
  json["broker"] = broker_json(host.broker, host.messages_per_second);
  json["changed"] = host.changed;
  return json;
}

Json controller_json(const SiteController& controller) {
  return {{"controller", controller.controller},
          {"host", controller.host.to_string()},
          {"state", std::string(to_string(controller.state))},
          {"since", time_text(controller.since)},
          {"subscribers", controller.subscribers},
          {"late_polls", controller.late_polls},
          {"unreachable", controller.unreachable},
          {"changed", controller.changed}};
}

Json site_rank_json(const SiteRank& rank) {
  auto json = reports::rank_json(rank.report);
  json["last_line"] = text_or_null(rank.last_line);
  json["queue"] = rank.queue_waits.count() == 0 ? Json(nullptr)
                                                : Json({{"messages", rank.queued_messages},
                                                        {"bytes", rank.queued_bytes},
                                                        {"waits_ms", rank.queue_waits.count()}});
  json["changed"] = rank.changed;
  return json;
}

Json mesh_json(const SiteMesh& mesh) {
  Json hosts = Json::array();
  for (const auto& host : mesh.hosts) hosts.push_back(host.to_string());
  Json ranks = Json::array();
  for (const auto& rank : mesh.ranks) ranks.push_back(site_rank_json(*rank));
  return {{"mesh", mesh.name},
          {"region", mesh.region.to_string()},
          {"num_ranks", mesh.region.num_ranks()},
          {"owner", mesh.owner},
          {"kind", mesh.kind == ProcKind::mesh ? "mesh" : "plain"},
          {"command", mesh.command},
          {"hosts", std::move(hosts)},
          {"ranks", std::move(ranks)},
          {"changed", mesh.changed}};
}

}  // namespace

std::string to_json(const SiteView& view, int indent) {
  Json json;
  json["sequence"] = view.sequence;
  json["since"] = view.since;
  json["time"] = time_text(view.time);
  json["hosts"] = Json::array();
  for (const auto& host : view.hosts) json["hosts"].push_back(host_json(host));
  json["controllers"] = Json::array();
  for (const auto& one : view.controllers) json["controllers"].push_back(controller_json(one));
  json["meshes"] = Json::array();
  for (const auto& mesh : view.meshes) json["meshes"].push_back(mesh_json(mesh));
  json["gone"] = view.gone;
  json["events"] = Json::array();
  for (const auto& event : view.events) {
    auto one = reports::event_json(event.event);
    one["sequence"] = event.sequence;
    json["events"].push_back(std::move(one));
  }
  json["cut"] = view.cut;
  return reports::dump(json, indent);
}

}  // namespace meshbus

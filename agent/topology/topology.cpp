#include "agent/topology/topology.h"

#include <nlohmann/json.hpp>

#include "agent/os/spec.h"
#include "common/base/number_list.h"

namespace meshbus::topology {
namespace {

using Json = nlohmann::ordered_json;

template <typename Items, typename ToJson>
std::string lines_of(const Items& items, ToJson to_json_line) {
  std::string text;
  for (const auto& item : items)
    text += (text.empty() ? "\n  " : ",\n  ") + Json(to_json_line(item)).dump();
  return "[" + text + "]";
}

Result<Cpus> cpus_of(const Json& json) {
  auto cpus = parse_number_list(json.at("cpus").get<std::string>(), os::kMaxCpus);
  if (!cpus) return fail(ErrorCode::malformed_message, "cpus: " + json.at("cpus").dump());
  return *cpus;
}

/// Throws what the library throws.
Result<Topology> read(const Json& json) {
  Topology topology;
  json.at("machine_cpus").get_to(topology.machine_cpus);
  json.at("quota_milli").get_to(topology.quota_milli);
  json.at("memory_problem").get_to(topology.memory_problem);
  for (const auto& one : json.at("cores")) {
    auto cpus = cpus_of(one);
    if (!cpus) return fail(cpus.error());
    topology.cores.push_back({one.at("package").get<std::uint32_t>(), std::move(*cpus)});
  }
  for (const auto& one : json.at("nodes")) {
    auto cpus = cpus_of(one);
    if (!cpus) return fail(cpus.error());
    const auto number = one.at("number").get<std::uint32_t>();
    if (number >= os::kMaxMemoryNodes)
      return fail(ErrorCode::malformed_message, "node " + std::to_string(number));
    topology.nodes.push_back({number, std::move(*cpus), one.value("has_memory", true)});
  }
  for (const auto& one : json.at("gpus")) {
    auto cpus = cpus_of(one);
    if (!cpus) return fail(cpus.error());
    topology.gpus.push_back({one.at("address").get<std::string>(),
                             one.at("vendor").get<std::string>(), std::move(*cpus)});
  }
  return topology;
}

}  // namespace

std::string to_json(const Topology& topology) {
  const auto core = [](const Core& one) {
    return Json{{"package", one.package}, {"cpus", number_list(one.cpus)}};
  };
  const auto node = [](const Node& one) {
    Json json{{"number", one.number}, {"cpus", number_list(one.cpus)}};
    if (!one.has_memory) json["has_memory"] = false;
    return json;
  };
  const auto gpu = [](const Gpu& one) {
    return Json{{"address", one.address}, {"vendor", one.vendor}, {"cpus", number_list(one.cpus)}};
  };
  return "{\"machine_cpus\":" + std::to_string(topology.machine_cpus) +
         ",\n \"quota_milli\":" + std::to_string(topology.quota_milli) +
         ",\n \"memory_problem\":" + Json(topology.memory_problem).dump() +
         ",\n \"cores\":" + lines_of(topology.cores, core) +
         ",\n \"nodes\":" + lines_of(topology.nodes, node) +
         ",\n \"gpus\":" + lines_of(topology.gpus, gpu) + "}\n";
}

Result<Topology> parse_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    return read(json);
  } catch (const Json::exception& error) {
    return fail(ErrorCode::malformed_message, std::string("topology: ") + error.what());
  }
}

}  // namespace meshbus::topology

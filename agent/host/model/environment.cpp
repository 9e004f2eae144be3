#include "agent/host/model/environment.h"

#include <unistd.h>

#include <map>
#include <string_view>

#include "common/base/launcher_variables.h"

namespace meshbus::host {
namespace {

std::string entry(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + std::string(value);
}
std::string entry(std::string_view name, std::uint64_t value) {
  return entry(name, std::to_string(value));
}

}  // namespace

std::string variable_of_label(std::string_view label) {
  std::string name(label);
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    } else if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) {
      c = '_';
    }
  }
  return name;
}

Environment shared_environment(const MeshSpec& spec, const Environment& inherited) {
  std::map<std::string, std::string, std::less<>> values;
  if (!spec.command.clean_environment) {
    for (const auto& variable : inherited) {
      const auto equals = variable.find('=');
      if (equals == std::string::npos || equals == 0 ||
          is_place_variable(std::string_view(variable).substr(0, equals)))
        continue;
      values[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : spec.command.environment) {
    if (!is_own_variable(name)) values[name] = value;
  }
  const auto& region = spec.region;
  for (std::size_t axis = 0; axis < region.num_dims(); ++axis)
    values["MESHBUS_SIZE_" + variable_of_label(region.labels()[axis])] =
        std::to_string(region.sizes()[axis]);
  values["WORLD_SIZE"] = std::to_string(region.num_ranks());
  values["LOCAL_WORLD_SIZE"] = std::to_string(spec.block.size());
  values["NODE_RANK"] = std::to_string(spec.host_index);
  values["MESHBUS_MESH"] = spec.mesh.to_string();
  if (!spec.master_address.empty()) values["MASTER_ADDR"] = spec.master_address;
  if (spec.master_port != 0) values["MASTER_PORT"] = std::to_string(spec.master_port);

  Environment environment;
  environment.reserve(values.size());
  for (const auto& [name, value] : values) environment.push_back(entry(name, value));
  return environment;
}

Environment rank_environment(const MeshSpec& spec, std::uint64_t rank, std::uint32_t restarts) {
  Environment environment;
  environment.push_back(entry("RANK", rank));
  environment.push_back(entry("LOCAL_RANK", rank - spec.block.begin));
  const auto& sizes = spec.region.sizes();
  if (const auto coordinates = spec.region.extent().coordinates_of(rank)) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      environment.push_back(entry("MESHBUS_RANK_" + variable_of_label(spec.region.labels()[axis]),
                                  (*coordinates)[axis]));
  }
  environment.push_back(entry("MESHBUS_RESTARTS", restarts));
  environment.push_back(entry(
      "MESHBUS_ADDR", ProcId(spec.hosts[spec.host_index], proc_name(spec.mesh, rank)).to_string()));
  return environment;
}

Environment own_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  return environment;
}

}  // namespace meshbus::host

#include "cli/run/role_variables.h"

#include "meshbus/roles.h"

namespace meshbus::cli {

std::string role_machine(const HostAddr& host) {
  return host.transport() == Transport::tcp ? std::string(host.host()) : "127.0.0.1";
}

std::vector<std::pair<std::string, std::string>> role_variables(
    const std::vector<RoleAddress>& roles, std::size_t own) {
  std::vector<std::pair<std::string, std::string>> variables;
  std::string names;
  for (const auto& role : roles) {
    names += (names.empty() ? "" : ",") + role.name;
    const auto variable = role_variable(role.name);
    variables.emplace_back(variable, role.ranks.to_string());
    std::string machines;
    for (const auto& host : role.ranks.hosts())
      machines += (machines.empty() ? "" : ",") + role_machine(host);
    variables.emplace_back(variable + "_HOSTS", machines);
    if (role.port == 0) continue;
    variables.emplace_back(variable + "_ADDR", role_machine(role.ranks.hosts().front()));
    variables.emplace_back(variable + "_PORT", std::to_string(role.port));
  }
  variables.emplace_back("MESHBUS_ROLE", roles[own].name);
  variables.emplace_back("MESHBUS_ROLES", names);
  if (roles[own].port != 0)
    variables.emplace_back("MESHBUS_LISTEN_PORT", std::to_string(roles[own].port));
  return variables;
}

}  // namespace meshbus::cli

#include "cli/run/job_plan.h"

#include <cctype>
#include <map>
#include <set>

#include "meshbus/name.h"
#include "meshbus/roles.h"

namespace meshbus::cli {
namespace {

/// The variables that ranks have for a role; see role_variables.h.
std::vector<std::string> variables_of(const std::string& name) {
  const auto variable = role_variable(name);
  return {variable, variable + "_ADDR", variable + "_PORT", variable + "_HOSTS"};
}

/// The word of a command that says best what it runs: of `python3 -u train.py` and `python3 -m
/// train` not the first one.
std::string telling_word(const std::vector<std::string>& command) {
  const auto& program = command.front();
  if (!program.substr(program.find_last_of('/') + 1).starts_with("python")) return program;
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-m" && i + 1 < command.size())
      return command[i + 1].substr(command[i + 1].find_last_of('.') + 1);
    if (command[i].ends_with(".py")) return command[i];
    if (!command[i].starts_with("-") || command[i] == "-c") break;
  }
  return program;
}

}  // namespace

std::string mesh_name(const RoleArguments& role) {
  if (!role.name.empty()) return role.name;
  std::string name = telling_word(role.command);
  name = name.substr(name.find_last_of('/') + 1).substr(0, 40);
  if (const auto dot = name.find('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, "_");
  return Name::is_reserved(name) ? "_" + name : name;
}

Result<void> name_roles(std::vector<RoleArguments>& roles) {
  if (roles.size() == 1) return {};
  std::set<std::string> taken;
  for (const auto& role : roles) {
    if (!role.name.empty() && !taken.insert(role.name).second)
      return fail(ErrorCode::configuration_error, (role.source.empty() ? "" : role.source + ": ") +
                                                      "two roles have the name '" + role.name +
                                                      "': give one of them another --name");
  }
  for (auto& role : roles) {
    if (!role.name.empty()) continue;
    const auto base = mesh_name(role);
    role.name = base;
    for (int number = 2; !taken.insert(role.name).second; ++number)
      role.name = base + "_" + std::to_string(number);
  }
  std::map<std::string, std::string> owners;
  for (const auto& role : roles) {
    for (const auto& variable : variables_of(role.name)) {
      const auto [owner, is_new] = owners.emplace(variable, role.name);
      if (!is_new)
        return fail(ErrorCode::configuration_error,
                    (role.source.empty() ? "" : role.source + ": ") + "the roles '" +
                        owner->second + "' and '" + role.name + "' would both have the variable " +
                        variable + ": give one of them another name");
    }
  }
  return {};
}

std::uint64_t role_size(const RoleArguments& role, std::uint64_t hosts) {
  if (role.ranks.total) return *role.ranks.total;
  return hosts * (role.ranks.per_host ? role.ranks.per_host->num_ranks() : 1);
}

Result<Extent> mesh_extent(const RoleArguments& role, const HostMeshRef& on, std::uint64_t size) {
  const Extent hosts = on.region().extent();
  if (role.ranks.per_host) return concat(hosts, *role.ranks.per_host);
  const bool is_even = hosts.num_ranks() != 0 && size % hosts.num_ranks() == 0;
  auto procs = Extent::make({{"proc", is_even ? size / hosts.num_ranks() : size}});
  return procs && is_even ? concat(hosts, *procs) : procs;
}

std::string place_of(const RunArguments& run, const RoleArguments& role) {
  if (!role.source.empty()) return role.source + ": ";
  return run.has_roles ? mesh_name(role) + ": " : std::string();
}

Result<std::vector<std::uint64_t>> input_ranks(const RunArguments& run, std::uint64_t size) {
  std::vector<std::uint64_t> ranks;
  if (run.input == "none") return ranks;
  if (run.input == "all") {
    for (std::uint64_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  }
  ranks.push_back(std::stoull(run.input));
  if (ranks.front() >= size && size > 0)
    return fail(ErrorCode::configuration_error,
                "--stdin " + run.input + ": there are only ranks 0.." + std::to_string(size - 1));
  return ranks;
}

}  // namespace meshbus::cli

#include "client/src/proc_mesh/spawn_recipe.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "agent/os/process_link.h"
#include "client/src/base/wire_reports.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/launch/launched_host.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "common/base/launcher_variables.h"
#include "common/wire/settings_call.h"
#include "common/wire/wire_region.h"

namespace meshbus {
namespace {

void set_variables(wire::CommandT& command, const std::map<std::string, std::string>& variables) {
  for (const auto& [key, value] : variables) {
    auto pair = std::make_unique<wire::KeyValueT>();
    pair->key = key;
    pair->value = value;
    command.environment.push_back(std::move(pair));
  }
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0 ||
        is_place_variable(entry.substr(0, equals)))
      continue;
    variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

Result<std::string> own_directory() {
  std::string path(4096, '\0');
  if (::getcwd(path.data(), path.size()) == nullptr)
    return fail(ErrorCode::io_error,
                "the working directory of this launcher is gone; set ProcSpec::directory");
  path.resize(path.find('\0'));
  return path;
}

std::unique_ptr<wire::ProcSettingsT> settings_to_wire(const ProcSettings& settings) {
  auto out = std::make_unique<wire::ProcSettingsT>();
  for (const auto& limit : settings.limits)
    out->limits.emplace_back(limit.soft, limit.hard, static_cast<std::uint32_t>(limit.resource));
  // Out of range stays out of range: the host says so.
  if (settings.nice) out->nice = static_cast<std::int8_t>(std::clamp(*settings.nice, -128, 127));
  if (settings.umask) out->umask = static_cast<std::uint16_t>(std::min(*settings.umask, 0xffffU));
  out->cpus = settings.cpus;
  out->uid = settings.uid;
  out->gid = settings.gid;
  out->groups = settings.groups;
  out->memory_limit = settings.memory_limit;
  out->pids_limit = settings.pids_limit;
  if (settings.cpu_limit) {
    const double milli = std::round(*settings.cpu_limit * 1000);
    out->cpu_limit =
        milli >= 1 ? static_cast<std::uint32_t>(std::min<double>(milli, UINT32_MAX)) : 0;
  }
  out->same_session = settings.same_session;
  out->no_subreaper = settings.no_subreaper;
  out->no_new_privs = settings.no_new_privs;
  return out;
}

std::unique_ptr<wire::BindingT> binding_to_wire(const Binding& binding) {
  if (!binding.is_wanted()) return nullptr;
  auto out = std::make_unique<wire::BindingT>();
  out->to = static_cast<wire::BindTo>(binding.to);
  out->cores = static_cast<std::uint16_t>(std::min(binding.cores, 0xffffU));
  out->memory = static_cast<wire::BindMemory>(binding.memory);
  out->visible_devices = binding.visible_devices;
  return out;
}

Result<wire::CommandT> make_command(const ProcSpec& spec, const HostAddr& host) {
  wire::CommandT command;
  command.program = spec.program;
  command.arguments = spec.command;
  command.directory = spec.directory;
  command.clean_environment = spec.clean_environment;
  command.is_template = spec.is_template;
  command.settings = settings_to_wire(spec.settings);
  std::map<std::string, std::string> variables;
  if (spec.follow_launcher && host.transport() == Transport::unix_socket) {
    if (spec.directory.empty()) {
      auto directory = own_directory();
      if (!directory) return fail(directory.error());
      command.directory = std::move(*directory);
    }
    if (!spec.clean_environment) {
      // This launcher's environment instead of the host agent's, which may be of another day.
      variables = own_environment();
      command.clean_environment = true;
    }
  }
  for (const auto& [key, value] : spec.environment) variables.insert_or_assign(key, value);
  set_variables(command, variables);
  return command;
}

std::uint32_t milliseconds_of(std::chrono::milliseconds duration) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(duration.count(), 0, UINT32_MAX));
}

}  // namespace

Result<void> complete(ProcSpec& spec) {
  const auto& restart = spec.restart;
  if (restart.delay.count() < 0 || restart.max_delay.count() < 0 || restart.window.count() < 0 ||
      !(restart.jitter >= 0 && restart.jitter <= 1))
    return fail(ErrorCode::configuration_error,
                "restart: a time is negative, or jitter is not between 0 and 1");
  if (!spec.spares.empty() && (restart.on == RestartPolicy::On::never || restart.gang != Gang::one))
    return fail(ErrorCode::configuration_error,
                "spares: the ranks of a lost host are restarted alone on a spare, which needs "
                "`restart` with Gang::one");
  using os::process_link::kMostProcsPerProcess;
  if (spec.procs_per_process < 1 || spec.procs_per_process > kMostProcsPerProcess)
    return fail(ErrorCode::configuration_error,
                "procs_per_process: " + std::to_string(spec.procs_per_process) + "; 1 to " +
                    std::to_string(kMostProcsPerProcess));
  if (spec.binding.cores > 1 && spec.binding.to != BindTo::core)
    return fail(ErrorCode::configuration_error,
                "binding.cores is for binding to cores (BindTo::core)");
  if (spec.binding.is_wanted() && (spec.is_template || spec.procs_per_process > 1))
    return fail(ErrorCode::configuration_error,
                std::string("binding: ranks that ") +
                    (spec.is_template ? "are copies of a template" : "share a process") +
                    " cannot be bound one by one");
  if (!spec.program_settings.empty() && spec.kind != ProcKind::mesh)
    return fail(ErrorCode::configuration_error,
                "program_settings: only mesh procs have settings of their program "
                "(ProcSpec::kind)");
  if (spec.procs_per_process > 1 && spec.kind != ProcKind::mesh)
    return fail(ErrorCode::configuration_error,
                "procs_per_process: only mesh procs can share a process (ProcSpec::kind)");
  if (spec.command.empty()) {
    if (spec.kind == ProcKind::plain)
      return fail(ErrorCode::configuration_error, "there is no command to start");
    // bootstrap() takes it away.
    if (std::getenv("MESHBUS_BOOTSTRAP") != nullptr)
      return fail(ErrorCode::refused,
                  "this process is a mesh proc that spawns itself, without end: main() calls "
                  "bootstrap() before it spawns anything");
    auto own = own_executable();
    if (!own) return fail(own.error());
    if (spec.program.empty()) spec.program = *own;
    spec.command.push_back(spec.program);
  }
  if (spec.program.empty()) spec.program = spec.command.front();
  if (spec.program.empty())
    return fail(ErrorCode::configuration_error, "the first word of the command is empty");
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (std::any_of(spec.command.begin(), spec.command.end(), has_nul) || has_nul(spec.program)) {
    return fail(ErrorCode::configuration_error, "a word of the command has a NUL character in it");
  }
  for (const auto& [key, value] : spec.environment) {
    if (key.empty() || key.find('=') != std::string::npos || has_nul(key) || has_nul(value)) {
      return fail(ErrorCode::configuration_error,
                  "\"" + key + "\" cannot be an environment variable");
    }
  }
  return {};
}

Result<void> SpawnRecipe::find_master(Connection& connection, const ProcMeshRef& mesh) {
  if (mesh.root_ranks() == 0) return {};
  const auto& host = mesh.hosts().front();
  const auto port = ask_free_port(connection, host, core_.config().duration(keys::spawn_idle));
  if (!port) return fail(port.error());
  set_master(host, *port);
  return {};
}

void SpawnRecipe::set_master(const HostAddr& host, std::uint16_t port) {
  master_ = {.address = host.transport() == Transport::tcp ? std::string(host.host()) : "127.0.0.1",
             .port = port};
}

Result<wire::CommandT> SpawnRecipe::command_for(const HostAddr& host) {
  auto& known = host.transport() == Transport::unix_socket ? near_ : far_;
  if (known) return *known;
  auto made = make_command(spec_, host);
  if (made) known = *made;
  return made;
}

std::string SpawnRecipe::name_owner_anew(const HostAddr& host, const Connection& connection) {
  return owners_.insert_or_assign(host, connection.self()).first->second;
}

Result<wire::SpawnProcsT> SpawnRecipe::make(Connection& connection, const MeshMonitor& monitor,
                                            std::uint64_t host, const RankBlock& block) {
  const auto& mesh = monitor.mesh();
  auto command = command_for(mesh.hosts()[host]);
  if (!command) return fail(command.error());
  wire::SpawnProcsT message;
  message.mesh = monitor.name();
  message.region = to_wire(mesh.region());
  for (const auto& address : mesh.hosts()) message.hosts.push_back(address.to_string());
  message.host_index = static_cast<std::uint32_t>(host);
  message.create_ranks = to_wire(RankSet{block});
  message.kind = spec_.kind == ProcKind::mesh ? wire::ProcKind::mesh : wire::ProcKind::plain;
  message.procs_per_process = static_cast<std::uint16_t>(spec_.procs_per_process);
  message.command = std::make_unique<wire::CommandT>(std::move(*command));
  message.owner = owners_.try_emplace(mesh.hosts()[host], connection.self()).first->second;
  message.lease_ms = milliseconds_of(monitor.options().lease);
  message.ready_limit_ms =
      milliseconds_of(spec_.ready_limit.value_or(core_.config().duration(keys::spawn_ready)));
  message.grace_ms = milliseconds_of(monitor.options().grace);
  message.may_restart = monitor.options().restart.on != RestartPolicy::On::never;
  message.output =
      spec_.output == OutputMode::stream ? wire::OutputMode::stream : wire::OutputMode::capture;
  if (!spec_.input_ranks.empty())
    message.input_ranks = to_wire(ranks_on(mesh, host, spec_.input_ranks));
  message.binding = binding_to_wire(spec_.binding);
  message.revision = revision_;
  const auto& master = masters_.try_emplace(mesh.hosts()[host], master_).first->second;
  message.master_address = master.address;
  message.master_port = master.port;
  for (const auto& [key, value] : core_.config().snapshot()) {
    auto pair = std::make_unique<wire::KeyValueT>();
    pair->key = key;
    pair->value = value;
    message.config.push_back(std::move(pair));
  }
  for (const auto& [name, value] : spec_.program_settings) {
    auto pair = std::make_unique<wire::KeyValueT>();
    pair->key = std::string(kProgramKeys) + name;
    pair->value = value;
    message.config.push_back(std::move(pair));
  }
  return message;
}

}  // namespace meshbus

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <stop_token>

#include "agent/os/process_link.h"
#include "client/src/base/wire_reports.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/launch/launched_host.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "common/base/launcher_variables.h"
#include "common/security/token.h"
#include "common/wire/settings_call.h"
#include "common/wire/wire_region.h"
#include "wire/lifecycle_generated.h"

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

/// Fills in what the spec leaves open, and refuses what cannot work.
Result<void> complete(ProcSpec& spec) {
  const auto& restart = spec.restart;
  if (restart.delay.count() < 0 || restart.max_delay.count() < 0 || restart.window.count() < 0 ||
      !(restart.jitter >= 0 && restart.jitter <= 1))
    return fail(ErrorCode::configuration_error,
                "restart: a time is negative, or jitter is not between 0 and 1");
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

std::vector<std::uint32_t> numbers_of(const flatbuffers::Vector<std::uint32_t>* numbers) {
  return numbers == nullptr ? std::vector<std::uint32_t>()
                            : std::vector<std::uint32_t>(numbers->begin(), numbers->end());
}

/// How a host has bound those of its ranks that are in `block`. Errors: refused, for an older host.
Result<void> add_bindings(const wire::SpawnAccepted* accepted, const RankBlock& block,
                          const HostAddr& host, BindingMap& map) {
  if (accepted == nullptr || accepted->bindings() == nullptr || accepted->bindings()->size() == 0)
    return fail(ErrorCode::refused, "its release of meshbus cannot bind ranks");
  for (const auto* entry : *accepted->bindings()) {
    for (auto rank = std::max(entry->begin(), block.begin);
         rank < std::min(entry->end(), block.end); ++rank)
      map.ranks.push_back({.rank = rank,
                           .cpus = numbers_of(entry->cpus()),
                           .memory_nodes = numbers_of(entry->memory_nodes()),
                           .memory = static_cast<BindMemory>(entry->memory()),
                           .gpu = text_of(entry->gpu()),
                           .visible_devices = text_of(entry->visible_devices())});
  }
  if (accepted->notes() == nullptr) return {};
  for (const auto* note : *accepted->notes()) map.notes.push_back({host, note->str()});
  return {};
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

/// One spawn under way.
class Spawn {
 public:
  Spawn(ContextCore& core, Connection& connection, MeshMonitor& monitor, const ProcSpec& spec)
      : core_(core), connection_(connection), monitor_(monitor), spec_(spec) {}

  Result<void> order() {
    if (auto found = find_master(); !found) return found;
    if (spec_.stop.stop_requested()) return given_up(nullptr);
    const auto& hosts = monitor_.mesh().hosts();
    std::map<std::uint64_t, Connection::Answer> answers;
    const auto limit = core_.config().duration(keys::spawn_idle);
    for (std::uint64_t host = 0; host < hosts.size(); ++host) {
      const auto block = monitor_.mesh().block_of(host).value_or(RankBlock{});
      if (block.size() == 0) continue;
      auto message = make_message(host, block);
      if (!message) return fail(message.error());
      if (spec_.restart.on != RestartPolicy::On::never) sent_.emplace(host, *message);
      answers.emplace(
          host, connection_.ask(Destination::to_agent(hosts[host]), std::move(*message), limit));
    }
    Result<void> result;
    for (auto& [host, future] : answers) {
      auto answer = future.get();
      if (answer) {
        monitor_.progress().note_accepted(host);
        if (!spec_.binding.is_wanted()) continue;
        const auto block = monitor_.mesh().block_of(host).value_or(RankBlock{});
        const auto bound =
            add_bindings(answer->body_as<wire::SpawnAccepted>(), block, hosts[host], bindings_);
        if (bound) continue;
        answer = fail(bound.error());
      }
      // Whether it was done is not known: what may run there is to be stopped too.
      if (answer.error().code() == ErrorCode::fate_unknown ||
          answer.error().code() == ErrorCode::timeout)
        monitor_.progress().note_accepted(host);
      if (result)
        result = fail(answer.error().within("mesh " + monitor_.name() + ": host " +
                                            hosts[host].to_string() + " did not start its ranks"));
    }
    return result;
  }

  Result<void> wait_ready() {
    const auto is_decided = [this](const RankTable& table) {
      if (spec_.stop.stop_requested()) return true;
      if (table.created() == table.size()) return true;
      // A partial mesh waits for the others too.
      return spec_.partial ? undecided(table).empty() : has_fallen(table);
    };
    const auto idle = core_.config().duration(keys::spawn_idle);
    const std::stop_callback wake(spec_.stop, [this] { monitor_.progress().wake(); });
    const bool is_in_time = monitor_.progress().wait_while_changing(is_decided, idle);
    auto table = monitor_.progress().table();
    if (!spec_.partial && has_fallen(table)) {
      // The words of the exit report are worth the time that they take: some ms, more on a busy
      // host.
      monitor_.progress().wait(
          [](const RankTable& now) {
            return std::all_of(now.ranks().begin(), now.ranks().end(), [](const RankReport& rank) {
              return !is_fallen(rank) || !rank.reason.empty();
            });
          },
          RankTable::kExitReportLimit);
      return creation_error(monitor_.progress().table());
    }
    const auto left = undecided(table);
    if (spec_.stop.stop_requested() && table.created() != table.size() && !left.empty())
      return given_up(table.reports_of(left));
    if (is_in_time || spec_.partial) return {};
    const Error error(
        ErrorCode::proc_spawn_error,
        "mesh " + monitor_.name() + ": " + std::to_string(left.size()) + " of " +
            std::to_string(table.size()) + " ranks are not ready, and nothing has moved for " +
            std::to_string(idle.count()) +
            " ms (key spawn.idle): " + describe_stuck(table.ranks()) + ". " + table.describe(left));
    return fail(error.about(table.reports_of(left)));
  }

  /// The error of a spawn whose ProcSpec::stop was used.
  tl::unexpected<Error> given_up(std::shared_ptr<const std::vector<RankReport>> ranks) const {
    const Error error(
        ErrorCode::proc_spawn_error,
        "mesh " + monitor_.name() + ": the spawn was given up before all ranks were ready");
    return fail(error.about(std::move(ranks)));
  }

  /// What each host was sent, when its ranks may be started anew.
  RestartOrders::Messages take_sent() { return std::move(sent_); }
  BindingMap take_bindings() { return std::move(bindings_); }

 private:
  /// Ended before all were ready. A plain proc that is done already was ready; one that somebody
  /// has stopped is not what was asked for.
  static bool is_fallen(const RankReport& rank) {
    return rank.is_terminal() && !RankTable::is_done(rank);
  }
  static bool has_fallen(const RankTable& table) {
    return std::any_of(table.ranks().begin(), table.ranks().end(), is_fallen);
  }
  static std::vector<std::uint64_t> undecided(const RankTable& table) {
    std::vector<std::uint64_t> ranks;
    for (const auto& rank : table.ranks()) {
      if (rank.state != ProcState::ready && !rank.is_terminal()) ranks.push_back(rank.rank);
    }
    return ranks;
  }

  tl::unexpected<Error> creation_error(const RankTable& table) const {
    std::vector<std::uint64_t> fallen;
    for (const auto& rank : table.ranks()) {
      if (is_fallen(rank)) fallen.push_back(rank.rank);
    }
    std::string detail = "mesh " + monitor_.name() + ": ";
    if (fallen.size() > 1)
      detail += std::to_string(fallen.size()) + " of " + std::to_string(table.size()) +
                " ranks ended before all were ready: ";
    detail += table.describe(fallen);
    const auto outcome = table.outcome();
    // What its host ended because its time was over did not end by itself, and those that are not
    // ready yet are about to be ended likewise.
    const bool is_late = outcome.first_failure && outcome.first_failure->code == ErrorCode::timeout;
    auto named = fallen;
    if (is_late) {
      detail += ". Not ready: " + describe_stuck(table.ranks());
      const auto left = undecided(table);
      named.insert(named.end(), left.begin(), left.end());
    }
    const auto stopped = std::find_if(fallen.begin(), fallen.end(), [&table](std::uint64_t rank) {
      return !table.rank(rank).stop_reason.empty();
    });
    if (stopped != fallen.end()) {
      const auto& by = table.rank(*stopped).stopped_by;
      detail +=
          ". Stopped" + (by.empty() ? "" : " by " + by) + ": " + table.rank(*stopped).stop_reason;
    }
    if (outcome.first_failure && !outcome.first_failure->stderr_tail.empty()) {
      detail += "\nlast lines of rank " + std::to_string(outcome.first_failure->rank) +
                " on stderr:\n" + outcome.first_failure->stderr_tail;
    }
    const Error error(is_late ? ErrorCode::proc_spawn_error : ErrorCode::proc_creation_error,
                      std::move(detail));
    return fail(error.about(table.reports_of(named)));
  }

  /// MASTER_ADDR and MASTER_PORT: where rank 0 may listen.
  Result<void> find_master() {
    if (monitor_.mesh().root_ranks() == 0) return {};
    const auto& host = monitor_.mesh().hosts().front();
    master_address_ = host.transport() == Transport::tcp ? std::string(host.host()) : "127.0.0.1";
    const auto port = ask_free_port(connection_, host, core_.config().duration(keys::spawn_idle));
    if (!port) return fail(port.error());
    master_port_ = *port;
    return {};
  }

  Result<wire::SpawnProcsT> make_message(std::uint64_t host, const RankBlock& block) {
    const auto& mesh = monitor_.mesh();
    auto command = make_command(spec_, mesh.hosts()[host]);
    if (!command) return fail(command.error());
    wire::SpawnProcsT message;
    message.mesh = monitor_.name();
    message.region = to_wire(mesh.region());
    for (const auto& address : mesh.hosts()) message.hosts.push_back(address.to_string());
    message.host_index = static_cast<std::uint32_t>(host);
    message.create_ranks = to_wire(RankSet{block});
    message.kind = spec_.kind == ProcKind::mesh ? wire::ProcKind::mesh : wire::ProcKind::plain;
    message.procs_per_process = static_cast<std::uint16_t>(spec_.procs_per_process);
    message.command = std::make_unique<wire::CommandT>(std::move(*command));
    message.owner = connection_.self();
    message.lease_ms = milliseconds_of(monitor_.options().lease);
    message.ready_limit_ms =
        milliseconds_of(spec_.ready_limit.value_or(core_.config().duration(keys::spawn_ready)));
    message.grace_ms = milliseconds_of(monitor_.options().grace);
    message.may_restart = monitor_.options().restart.on != RestartPolicy::On::never;
    message.output =
        spec_.output == OutputMode::stream ? wire::OutputMode::stream : wire::OutputMode::capture;
    if (!spec_.input_ranks.empty())
      message.input_ranks = to_wire(ranks_on(mesh, host, spec_.input_ranks));
    message.binding = binding_to_wire(spec_.binding);
    message.master_address = master_address_;
    message.master_port = master_port_;
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

  ContextCore& core_;
  Connection& connection_;
  MeshMonitor& monitor_;
  const ProcSpec& spec_;
  std::string master_address_;
  std::uint16_t master_port_ = 0;
  RestartOrders::Messages sent_;
  BindingMap bindings_;
};

/// Ends what a spawn that failed has started, and settles what it has not.
Result<void> undo(ContextCore& core, Connection& connection, MeshMonitor& monitor,
                  const std::string& reason) {
  const auto& hosts = monitor.mesh().hosts();
  const auto table = monitor.progress().table();
  std::map<std::uint64_t, Connection::Answer> answers;
  const auto not_started = [&](std::uint64_t host) {
    core.run([&] { monitor.lose(hosts[host], "the rank was not started"); });
  };
  for (std::uint64_t index = 0; index < hosts.size(); ++index) {
    const auto block = monitor.mesh().block_of(index).value_or(RankBlock{});
    if (block.size() == 0) continue;
    if (!monitor.progress().is_accepted(index)) {
      not_started(index);
    } else if (table.rank(block.begin).state == ProcState::unknown) {
      // Nothing was heard of it: the order may not have arrived.
      wire::GetStateT get;
      get.mesh = monitor.name();
      answers.emplace(index, connection.ask(Destination::to_agent(hosts[index]), std::move(get),
                                            std::chrono::seconds(5)));
    }
  }
  for (auto& [host, future] : answers) {
    const auto answer = future.get();
    if (!answer && answer.error().code() == ErrorCode::not_exist) not_started(host);
  }
  StopOptions stop{.reason = reason};
  if (const auto failures = monitor.progress().table().failures(); !failures.empty())
    stop.because = failures.front().rank;
  const auto stopped = stop_ranks(core, connection, monitor, stop);
  if (!stopped) return fail(stopped.error());
  return {};
}

}  // namespace

Result<ProcMesh> spawn_procs(const std::shared_ptr<ContextCore>& core, ConnectionUse connection,
                             const std::vector<HostAddr>& hosts, bool end_with_us,
                             std::string_view base, const Extent& extent, ProcSpec spec,
                             Handlers handlers) {
  auto name = spec.uuid ? Name::make(base, *spec.uuid) : Name::make(base);
  if (!name) return fail(name.error());
  if (auto fine = complete(spec); !fine)
    return fail(fine.error().within("spawn of " + std::string(base)));
  auto ref = ProcMeshRef::make(std::move(*name), hosts, extent);
  if (!ref) return fail(ref.error());
  // After a reconnect the broker may know us by another name; agents watch the owner by
  // this name.
  if (!hosts.empty()) {
    if (auto up = connection->wait_up(core->config().duration(keys::spawn_idle)); !up)
      return fail(up.error().within("spawn of " + std::string(base)));
  }

  const auto& config = core->config();
  MeshMonitor::Options options;
  const bool has_default = !handlers.on_failure;
  // The default handler needs the monitor that it belongs to.
  auto late_monitor = std::make_shared<std::weak_ptr<MeshMonitor>>();
  if (has_default) {
    handlers.on_failure = [core = core.get(), connection = connection.get(),
                           late_monitor](const RankReport& failure) {
      handle_failure_by_default(*core, *connection, *late_monitor, failure);
    };
  }
  options.handlers = std::move(handlers);
  options.has_output = spec.output == OutputMode::stream;
  options.is_plain = spec.kind == ProcKind::plain;
  options.lease = spec.lease.value_or(end_with_us ? std::chrono::milliseconds(0)
                                                  : config.duration(keys::lease));
  options.grace = spec.grace.value_or(config.duration(keys::terminate_grace));
  options.restart = spec.restart;
  options.seed = random_u64();
  const auto monitor = std::make_shared<MeshMonitor>(core->reactor(), core->handlers(),
                                                     std::move(*ref), std::move(options));
  *late_monitor = monitor;

  // From here on the mesh object stops what was started when this function leaves with an error.
  core->run([&] { connection->updates().add(monitor, core->reactor()); });
  auto& way = *connection.get();
  auto impl = std::make_unique<ProcMesh::Impl>(std::move(connection), monitor);
  auto* const parts = impl.get();
  ProcMesh mesh(std::move(impl));
  Spawn spawn(*core, way, *monitor, spec);
  auto done = spawn.order();
  parts->set_bindings(spawn.take_bindings());
  if (spec.restart.on != RestartPolicy::On::never)
    follow_restarts(*core, way, monitor, spawn.take_sent());
  if (done && !spec.wait_ready) {
    monitor->arm();
    return mesh;
  }
  if (done) done = spawn.wait_ready();
  if (done) {
    monitor->arm();
    return mesh;
  }
  const bool is_given_up = spec.stop.stop_requested();
  const auto stopped =
      undo(*core, way, *monitor, is_given_up ? "the spawn was given up" : "the spawn failed");
  if (stopped) return fail(done.error());
  const Error both(done.error().code(),
                   done.error().detail() +
                       "; and what did start could not be stopped: " + stopped.error().detail());
  return fail(
      both.about(stopped.error().reports() ? stopped.error().reports() : done.error().reports()));
}

}  // namespace meshbus

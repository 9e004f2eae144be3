#include "agent/host/model/mesh_spec.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "agent/os/process_link.h"
#include "common/wire/control.h"
#include "common/wire/wire_region.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {
namespace {

using os::process_link::kMostProcsPerProcess;
constexpr std::uint64_t kMostPids = 4'194'304;       // as many as Linux has numbers for
constexpr std::uint32_t kMostCpuMilli = 10'000'000;  // 10,000 CPUs

/// Texts that end up in a new process must be C strings.
Result<std::string> parse_text(const flatbuffers::String* text, const std::string& field) {
  std::string value = text_of(text);
  if (value.find('\0') != std::string::npos)
    return fail(ErrorCode::configuration_error,
                "SpawnProcs." + field + ": there is a NUL byte inside; leave it out");
  return value;
}

template <typename Entries>
Result<std::vector<NamedValue>> parse_named_values(const Entries* entries,
                                                   const std::string& field) {
  std::vector<NamedValue> values;
  if (entries == nullptr) return values;
  values.reserve(entries->size());
  for (const auto* entry : *entries) {
    auto name = parse_text(entry->key(), field);
    if (!name) return fail(name.error());
    auto value = parse_text(entry->value(), field);
    if (!value) return fail(value.error());
    if (name->empty() || name->find('=') != std::string::npos)
      return fail(ErrorCode::configuration_error,
                  "SpawnProcs." + field + ": '" + *name +
                      "' is no name: it must not be empty and have no '='");
    values.emplace_back(std::move(*name), std::move(*value));
  }
  return values;
}

/// What a proc is to be set to; what can be known now to be impossible is refused now, by name.
Result<os::ProcSettings> parse_settings(const wire::ProcSettings& request) {
  os::ProcSettings settings;
  const auto refused = [](const std::string& field, const std::string& why) {
    return fail(ErrorCode::configuration_error,
                "SpawnProcs.command.settings." + field + ": " + why);
  };
  for (flatbuffers::uoffset_t i = 0; request.limits() != nullptr && i < request.limits()->size();
       ++i) {
    const auto* limit = request.limits()->Get(i);
    const std::string name = os::rlimit_name(limit->resource());
    rlimit own{};
    if (i >= RLIM_NLIMITS || limit->resource() >= RLIM_NLIMITS ||
        limit->resource() == RLIMIT_RTTIME ||
        ::getrlimit(static_cast<__rlimit_resource_t>(limit->resource()), &own) != 0)
      return refused("limits", name + " cannot be set");
    if (limit->soft() > limit->hard())
      return refused("limits", name + ": the soft limit is above the hard one");
    if (limit->hard() > own.rlim_max && ::geteuid() != 0)
      return refused("limits", name + ": " + std::to_string(limit->hard()) + " is above the " +
                                   std::to_string(own.rlim_max) + " of this host");
    settings.limits.push_back({limit->resource(), limit->soft(), limit->hard()});
  }
  if (request.nice()) {
    if (*request.nice() < -20 || *request.nice() > 19)
      return refused("nice", std::to_string(*request.nice()) + "; -20 to 19");
    settings.nice = *request.nice();
  }
  if (request.umask()) {
    if (*request.umask() > 0777)
      return refused("umask", std::to_string(*request.umask()) + " is above 0777 (octal)");
    settings.umask = *request.umask();
  }
  const long cpus = std::min<long>(::sysconf(_SC_NPROCESSORS_CONF), os::kMaxCpus);
  for (flatbuffers::uoffset_t i = 0; request.cpus() != nullptr && i < request.cpus()->size(); ++i) {
    const auto cpu = request.cpus()->Get(i);
    if (cpu >= cpus)
      return refused(
          "cpus", "there is no CPU " + std::to_string(cpu) + "; 0 to " + std::to_string(cpus - 1));
    settings.cpus.push_back(cpu);
  }
  if (settings.cpus.size() > os::kMaxCpus) return refused("cpus", "some are named more than once");
  settings.uid = request.uid();
  settings.gid = request.gid();
  // To setresuid() and setresgid() it means "as it is": root.
  if (settings.uid == UINT32_MAX) return refused("uid", "there is no user 4294967295");
  if (settings.gid == UINT32_MAX) return refused("gid", "there is no group 4294967295");
  settings.no_new_privs = request.no_new_privs();
  if (request.groups() != nullptr)
    settings.groups.assign(request.groups()->begin(), request.groups()->end());
  if ((settings.uid || settings.gid || !settings.groups.empty()) && ::geteuid() != 0)
    return refused("uid", "only a host that runs as root can start procs as somebody else");
  if (settings.groups.size() > 65536) return refused("groups", "there are more than 65536");
  if (request.memory_limit()) {
    settings.group.memory = *request.memory_limit();
    if (settings.group.memory < os::kLeastMemoryLimit || settings.group.memory > INT64_MAX)
      return refused("memory_limit", std::to_string(settings.group.memory) + " bytes; at least " +
                                         std::to_string(os::kLeastMemoryLimit) +
                                         ", or no program gets through its own start");
  }
  if (request.pids_limit()) {
    settings.group.pids = *request.pids_limit();
    if (settings.group.pids < 1 || settings.group.pids > kMostPids)
      return refused("pids_limit",
                     std::to_string(settings.group.pids) + "; 1 to " + std::to_string(kMostPids));
  }
  if (request.cpu_limit()) {
    settings.group.cpu_milli = *request.cpu_limit();
    if (settings.group.cpu_milli < os::kLeastCpuLimit || settings.group.cpu_milli > kMostCpuMilli)
      return refused("cpu_limit", std::to_string(settings.group.cpu_milli) +
                                      " thousandths of a CPU; " +
                                      std::to_string(os::kLeastCpuLimit) + " to " +
                                      std::to_string(kMostCpuMilli));
  }
  settings.new_session = !request.same_session();
  settings.subreaper = !request.no_subreaper();
  return settings;
}

Result<CommandSpec> parse_command(const wire::Command& command) {
  CommandSpec spec;
  auto program = parse_text(command.program(), "command.program");
  if (!program) return fail(program.error());
  if (program->empty())
    return fail(ErrorCode::configuration_error,
                "SpawnProcs.command.program: it is empty; name a file to execute");
  spec.program = std::move(*program);
  for (const auto* argument : *command.arguments()) {
    auto text = parse_text(argument, "command.arguments");
    if (!text) return fail(text.error());
    spec.arguments.push_back(std::move(*text));
  }
  if (spec.arguments.empty()) spec.arguments.push_back(spec.program);
  auto environment = parse_named_values(command.environment(), "command.environment");
  if (!environment) return fail(environment.error());
  spec.environment = std::move(*environment);
  spec.clean_environment = command.clean_environment();
  auto directory = parse_text(command.directory(), "command.directory");
  if (!directory) return fail(directory.error());
  spec.directory = std::move(*directory);
  if (command.settings() != nullptr) {
    auto settings = parse_settings(*command.settings());
    if (!settings) return fail(settings.error());
    spec.settings = std::move(*settings);
  }
  spec.is_template = command.is_template();
  return spec;
}

Result<BindingRequest> parse_binding(const wire::SpawnProcs& request) {
  BindingRequest binding;
  const auto* wanted = request.binding();
  if (wanted == nullptr) return binding;
  const auto refused = [](const std::string& field, const std::string& why) {
    return fail(ErrorCode::configuration_error, "SpawnProcs.binding" + field + ": " + why);
  };
  if (wanted->to() > wire::BindTo::MAX)
    return refused(".to", "there is no " + std::to_string(static_cast<int>(wanted->to())));
  if (wanted->memory() > wire::BindMemory::MAX)
    return refused(".memory", "there is no " + std::to_string(static_cast<int>(wanted->memory())));
  if (wanted->cores() > 1 && wanted->to() != wire::BindTo::core)
    return refused(".cores", "a number of cores is for binding to cores");
  binding.to = wanted->to();
  binding.cores = std::max<std::uint32_t>(wanted->cores(), 1);
  binding.memory = wanted->memory();
  binding.is_one_gpu_visible = wanted->visible_devices();
  if (!binding.is_wanted()) return binding;
  if (request.command()->is_template())
    return refused("",
                   "the ranks of a template are copies of one process, which run where it runs");
  if (request.procs_per_process() > 1)
    return refused("", "ranks that share a process (procs_per_process) cannot be bound one by one");
  return binding;
}

Result<Region> parse_region(const wire::Region& region) {
  auto made = from_wire(&region);
  if (!made) return fail(made.error().within("SpawnProcs.region"));
  if (!(*made == Region(made->extent())))
    return fail(ErrorCode::configuration_error,
                "SpawnProcs.region: '" + made->to_string() +
                    "' is a slice; a spawn needs the whole mesh, '" +
                    Region(made->extent()).to_string() + "'");
  return made;
}

Result<std::vector<HostAddr>> parse_hosts(const wire::SpawnProcs& request, const HostAddr& own) {
  std::vector<HostAddr> hosts;
  for (const auto* text : *request.hosts()) {
    auto host = HostAddr::parse(text->string_view());
    if (!host)
      return fail(host.error().within("SpawnProcs.hosts[" + std::to_string(hosts.size()) + "]"));
    hosts.push_back(std::move(*host));
  }
  const auto index = request.host_index();
  if (index >= hosts.size())
    return fail(ErrorCode::out_of_range, "SpawnProcs.host_index: " + std::to_string(index) +
                                             ", but there are " + std::to_string(hosts.size()) +
                                             " hosts");
  if (!(hosts[index] == own))
    return fail(ErrorCode::identity_mismatch, "SpawnProcs.hosts[" + std::to_string(index) +
                                                  "] is " + hosts[index].to_string() +
                                                  ", but this host is " + own.to_string() +
                                                  "; use the address that it announces");
  return hosts;
}

std::string to_text(RankBlock block) {
  return std::to_string(block.begin) + ".." + std::to_string(block.end);
}

Result<void> check_ranks(const MeshSpec& spec) {
  std::uint64_t count = 0;
  for (const RankBlock ranks : spec.create_ranks) {
    if (ranks.begin < spec.block.begin || ranks.end > spec.block.end)
      return fail(ErrorCode::out_of_range,
                  "SpawnProcs.create_ranks: " + to_text(ranks) + " do not all lie on hosts[" +
                      std::to_string(spec.host_index) + "], which has " + to_text(spec.block));
    count += ranks.size();
  }
  if (count > kMostRanksPerHost)
    return fail(ErrorCode::too_large, "SpawnProcs.create_ranks: " + std::to_string(count) +
                                          " ranks for one host; the limit is " +
                                          std::to_string(kMostRanksPerHost));
  return {};
}

}  // namespace

Result<std::vector<RankBlock>> parse_ranks(
    const flatbuffers::Vector<const wire::RankInterval*>* ranks, std::uint64_t end,
    std::string_view field) {
  std::vector<RankBlock> blocks;
  if (ranks == nullptr) return blocks;
  std::uint64_t last = 0;
  for (const auto* interval : *ranks) {
    const RankBlock block{interval->begin(), interval->end()};
    if (block.begin >= block.end || block.begin < last || block.end > end)
      return fail(ErrorCode::out_of_range,
                  std::string(field) + ": " + to_text(block) +
                      "; intervals must be ascending, not empty, without overlap and at most " +
                      std::to_string(end));
    last = block.end;
    blocks.push_back(block);
  }
  return blocks;
}

bool contains(const std::vector<RankBlock>& ranks, std::uint64_t rank) {
  const auto after = std::upper_bound(
      ranks.begin(), ranks.end(), rank,
      [](std::uint64_t value, const RankBlock& block) { return value < block.begin; });
  return after != ranks.begin() && rank < std::prev(after)->end;
}

Result<MeshSpec> parse_spawn(const wire::SpawnProcs& request, const HostAddr& own) {
  auto mesh = Name::parse(request.mesh()->string_view());
  if (!mesh) return fail(mesh.error().within("SpawnProcs.mesh"));
  auto region = parse_region(*request.region());
  if (!region) return fail(region.error());
  auto hosts = parse_hosts(request, own);
  if (!hosts) return fail(hosts.error());
  auto owner = ProcId::parse(request.owner()->string_view());
  if (!owner) return fail(owner.error().within("SpawnProcs.owner"));
  if (request.kind() > wire::ProcKind::MAX)
    return fail(
        ErrorCode::configuration_error,
        "SpawnProcs.kind: there is no kind " + std::to_string(static_cast<int>(request.kind())));
  if (request.output() > wire::OutputMode::MAX)
    return fail(ErrorCode::configuration_error,
                "SpawnProcs.output: there is no mode " +
                    std::to_string(static_cast<int>(request.output())));
  const auto procs_per_process = std::max<std::uint32_t>(request.procs_per_process(), 1);
  if (procs_per_process > 1) {
    if (request.kind() != wire::ProcKind::mesh)
      return fail(ErrorCode::configuration_error,
                  "SpawnProcs.procs_per_process: only mesh procs can share a process");
    if (procs_per_process > kMostProcsPerProcess)
      return fail(ErrorCode::configuration_error,
                  "SpawnProcs.procs_per_process: " + std::to_string(procs_per_process) +
                      "; at most " + std::to_string(kMostProcsPerProcess));
  }
  auto command = parse_command(*request.command());
  if (!command) return fail(command.error());
  if (command->is_template && procs_per_process > 1)
    return fail(ErrorCode::configuration_error,
                "SpawnProcs.command.is_template: copies of a template have a process each, and "
                "procs_per_process is " +
                    std::to_string(procs_per_process));
  auto binding = parse_binding(request);
  if (!binding) return fail(binding.error());
  command->binding = *binding;
  auto config = parse_named_values(request.config(), "config");
  if (!config) return fail(config.error());
  auto master_address = parse_text(request.master_address(), "master_address");
  if (!master_address) return fail(master_address.error());

  auto moved_from = parse_text(request.moved_from(), "moved_from");
  if (!moved_from) return fail(moved_from.error());
  if (const auto from = HostAddr::parse(*moved_from); !moved_from->empty() && !from)
    return fail(from.error().within("SpawnProcs.moved_from"));
  auto moved_because = parse_text(request.moved_because(), "moved_because");
  if (!moved_because) return fail(moved_because.error());

  auto ref = ProcMeshRef::make(*mesh, *hosts, region->num_ranks(), *region);
  if (!ref) return fail(ref.error().within("SpawnProcs.region"));
  auto block = ref->block_of(request.host_index());
  if (!block) return fail(block.error().within("SpawnProcs.host_index"));
  auto create_ranks =
      parse_ranks(request.create_ranks(), region->num_ranks(), "SpawnProcs.create_ranks");
  if (!create_ranks) return fail(create_ranks.error());
  auto input_ranks =
      parse_ranks(request.input_ranks(), region->num_ranks(), "SpawnProcs.input_ranks");
  if (!input_ranks) return fail(input_ranks.error());

  MeshSpec spec{.mesh = std::move(*mesh),
                .region = std::move(*region),
                .hosts = std::move(*hosts),
                .owner = std::move(*owner),
                .kind = request.kind(),
                .command = std::move(*command),
                .procs_per_process = procs_per_process,
                .lease = std::chrono::milliseconds(request.lease_ms()),
                .ready_limit = std::chrono::milliseconds(request.ready_limit_ms()),
                .grace = std::chrono::milliseconds(request.grace_ms()),
                .output = request.output(),
                .master_address = std::move(*master_address),
                .master_port = request.master_port(),
                .config = std::move(*config),
                .host_index = request.host_index(),
                .block = *block,
                .create_ranks = std::move(*create_ranks),
                .input_ranks = std::move(*input_ranks),
                .restarts = request.restarts(),
                .may_restart = request.may_restart(),
                .revision = request.revision(),
                .moved_from = std::move(*moved_from),
                .moved_because = std::move(*moved_because)};
  if (auto checked = check_ranks(spec); !checked) return fail(checked.error());
  for (std::uint64_t rank = spec.block.begin; spec.procs_per_process > 1 && rank < spec.block.end;
       ++rank) {
    if (contains(spec.input_ranks, rank) && !spec.is_first_of_process(rank))
      return fail(ErrorCode::configuration_error,
                  "SpawnProcs.input_ranks: rank " + std::to_string(rank) +
                      " has no stdin of its own: that of its process is for the lowest rank in it");
  }
  return spec;
}

Result<MeshSpec> make_restart(const MeshSpec& first, std::uint32_t host_index,
                              std::vector<RankBlock> ranks, std::uint32_t restarts) {
  MeshSpec spec = first;
  if (host_index != first.host_index) {
    const auto ref =
        ProcMeshRef::make(first.mesh, first.hosts, first.region.num_ranks(), first.region);
    if (!ref) return fail(ref.error());
    const auto block = ref->block_of(host_index);
    if (!block) return fail(block.error());
    spec.host_index = host_index;
    spec.block = *block;
  }
  spec.create_ranks = std::move(ranks);
  spec.input_ranks.clear();
  spec.restarts = restarts;
  spec.moved_from.clear();
  return spec;
}

std::optional<std::string_view> find_difference(const MeshSpec& known, const MeshSpec& request,
                                                const ProcId& owner) {
  const bool is_same_revision = known.revision == request.revision;
  if (is_same_revision && !(known.region == request.region)) return "region";
  if (is_same_revision && known.hosts != request.hosts) return "hosts";
  if (!(owner == request.owner)) return "owner";
  if (known.kind != request.kind) return "kind";
  if (!(known.command == request.command)) return "command";
  if (known.procs_per_process != request.procs_per_process) return "procs_per_process";
  if (known.ready_limit != request.ready_limit) return "ready_limit_ms";
  if (known.grace != request.grace) return "grace_ms";
  if (known.output != request.output) return "output";
  if (known.master_address != request.master_address) return "master_address";
  if (known.master_port != request.master_port) return "master_port";
  if (known.config != request.config) return "config";
  return std::nullopt;
}

}  // namespace meshbus::host

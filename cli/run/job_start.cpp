#include "cli/run/job_start.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/restart_settings.h"
#include "cli/run/run_report.h"
#include "cli/run/torch_job.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

/// "train" of "/opt/bin/train.sh"; what cannot stand in a name becomes '_'.
std::string mesh_name(const RunArguments& arguments) {
  if (arguments.name) return *arguments.name;
  std::string name = arguments.command.front();
  name = name.substr(name.find_last_of('/') + 1).substr(0, 40);
  if (const auto dot = name.find('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, "_");
  return Name::is_reserved(name) ? "_" + name : name;
}

Result<std::vector<std::uint64_t>> input_ranks(const RunArguments& arguments, std::uint64_t size) {
  std::vector<std::uint64_t> ranks;
  if (arguments.input == "none") return ranks;
  if (arguments.input == "all") {
    for (std::uint64_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
    return ranks;
  }
  ranks.push_back(std::stoull(arguments.input));
  if (ranks.front() >= size && size > 0)
    return fail(
        ErrorCode::configuration_error,
        "--stdin " + arguments.input + ": there are only ranks 0.." + std::to_string(size - 1));
  return ranks;
}

Result<ProcSpec> make_spec(const RunArguments& arguments, const Context& context) {
  ProcSpec spec = arguments.ranks.make_spec(arguments.command);
  spec.output = OutputMode::stream;
  spec.wait_ready = false;
  spec.restart = arguments.restart;
  if (!arguments.ranks.grace) {
    if (auto grace = context.setting("terminate.grace")) {
      if (auto duration = parse_duration(*grace)) spec.grace = *duration;
    }
  }
  return spec;
}

/// The extent of the mesh that spawn() or spawn_n() will make.
Result<Extent> mesh_extent(const RunArguments& arguments, const HostMeshRef& on,
                           std::uint64_t size) {
  const Extent hosts = on.region().extent();
  if (arguments.ranks.per_host) return concat(hosts, *arguments.ranks.per_host);
  const bool is_even = hosts.num_ranks() != 0 && size % hosts.num_ranks() == 0;
  auto procs = Extent::make({{"proc", is_even ? size / hosts.num_ranks() : size}});
  return procs && is_even ? concat(hosts, *procs) : procs;
}

/// The machines that hosts are to be started on; none when they run already, or run here.
Result<std::vector<RemoteHost>> remote_hosts(const RunArguments& arguments) {
  if (arguments.from == RunArguments::From::slurm) return slurm_hosts(arguments.remote_program);
  std::vector<std::string> machines;
  if (arguments.from != RunArguments::From::ssh) return std::vector<RemoteHost>();
  for (const auto& word : arguments.list.words) {
    const bool is_address = word.text.starts_with("tcp:") || word.text.starts_with("unix:");
    if (is_address)
      return fail(ErrorCode::configuration_error,
                  word.source + ": " + word.text +
                      " is the address of a running host, the others are machines to start hosts "
                      "on by ssh: "
                      "one or the other");
    machines.push_back(word.text.starts_with("ssh:") ? word.text.substr(4) : word.text);
  }
  auto hosts = ssh_hosts(machines, arguments.remote_program);
  if (!hosts) return fail(hosts.error().within(arguments.list.source));
  return hosts;
}

}  // namespace

// The steps of a start, in their order.
// NOLINTNEXTLINE(readability-function-size)
Result<void> start_job(const RunArguments& arguments, RunEvents& events, JobParts& parts) {
  ContextOptions options;
  for (const auto& setting : arguments.settings) {
    const auto equals = setting.find('=');
    if (equals == std::string::npos)
      return fail(ErrorCode::configuration_error, "--set takes KEY=VALUE, not '" + setting + "'");
    options.settings.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
  }
  auto context = Context::create(std::move(options));
  if (!context) return fail(context.error());
  parts.context = std::make_unique<Context>(std::move(*context));
  for (const auto& warning : parts.context->warnings()) say(warning);

  // What can be refused is refused before anything is started.
  const std::string name = mesh_name(arguments);
  if (auto fine = Name::make(name); !fine) return fail(fine.error().within("--name"));
  using From = RunArguments::From;
  auto remote = remote_hosts(arguments);
  if (!remote) return fail(remote.error());
  const std::uint64_t on_hosts = arguments.from == From::here        ? arguments.hosts
                                 : arguments.from == From::addresses ? arguments.list.words.size()
                                                                     : remote->size();
  if (auto problem = size_problem(arguments.ranks, on_hosts); !problem.empty())
    return fail(ErrorCode::configuration_error, std::move(problem));
  const std::uint64_t size =
      arguments.ranks.total
          ? *arguments.ranks.total
          : on_hosts * (arguments.ranks.per_host ? arguments.ranks.per_host->num_ranks() : 1);
  auto readers = input_ranks(arguments, size);
  if (!readers) return fail(readers.error());
  const auto mpi = MpiJob::choose(arguments, size);
  if (!mpi) return fail(mpi.error());

  Result<HostMesh> hosts = fail(ErrorCode::internal, "no host");
  HostOptions host_options;
  host_options.containment = arguments.containment;
  host_options.end_on_broker_loss = true;
  if (!remote->empty()) {
    hosts = HostMesh::remote(*parts.context, std::move(*remote), std::move(host_options));
  } else if (arguments.from == From::here) {
    auto extent = Extent::make({{"host", arguments.hosts}});
    if (!extent) return fail(extent.error());
    hosts = HostMesh::process(*parts.context, *extent, std::move(host_options));
  } else {
    auto addresses = parse_hosts(arguments.list);
    if (!addresses) return fail(addresses.error());
    hosts = HostMesh::attach(*parts.context, "hosts", std::move(*addresses));
    // After --hosts the user knows where the hosts are named.
    if (!hosts && arguments.said.list.empty())
      hosts = fail(hosts.error().within(arguments.list.source));
  }
  if (!hosts) {
    parts.is_hosts_fault = true;
    return fail(hosts.error());
  }
  parts.hosts = std::make_unique<HostMesh>(std::move(*hosts));

  auto spec = make_spec(arguments, *parts.context);
  if (!spec) return fail(spec.error());
  parts.grace = spec->grace.value_or(parts.grace);
  spec->input_ranks = to_rank_set(*readers);

  if (*mpi) {
    auto job = MpiJob::start(*parts.hosts, name, size, **mpi, events);
    if (!job) return fail(job.error());
    parts.mpi = std::move(*job);
    parts.mpi->wrap(*spec);
  }

  if (arguments.torch) {
    if (const auto note = threads_note(*spec)) say(*note);
    wrap_torch(*spec, arguments, std::min<std::uint64_t>(on_hosts, size));
  }

  Handlers handlers;
  handlers.on_failure = [&events](const RankReport& rank) { events.failed(rank); };
  handlers.on_end = [&events](const MeshOutcome&) { events.ended(); };
  handlers.on_state = [&events](const RankReport& rank) {
    if (rank.step != StopStep::none && !rank.is_restarting) events.stopped(rank.rank);
    if (rank.is_terminal()) events.wake();
  };
  handlers.on_restart = [](const RestartReport& restart) { say(words_of(restart)); };
  handlers.on_output = [&events, &writer = parts.writer](std::uint64_t rank, Stream stream,
                                                         std::string_view bytes) {
    if (!writer->write(rank, stream, bytes)) events.unwritable(writer->error());
  };
  const auto extent = mesh_extent(arguments, parts.hosts->ref(), size);
  if (!extent) return fail(extent.error());
  parts.writer = std::make_unique<OutputWriter>(
      arguments.no_prefix ? std::vector<std::string>() : make_prefixes(name, *extent),
      [&events](bool is_blocked) { events.blocked(is_blocked); });
  parts.is_spawning = true;
  auto mesh = arguments.ranks.per_host
                  ? parts.hosts->spawn(name, *arguments.ranks.per_host, std::move(*spec),
                                       std::move(handlers))
                  : parts.hosts->spawn_n(name, size, std::move(*spec), std::move(handlers));
  if (!mesh) return fail(mesh.error());
  parts.mesh = std::make_unique<ProcMesh>(std::move(*mesh));
  if (!readers->empty())
    parts.pump = std::make_unique<InputPump>(
        *parts.mesh, *readers, [&events](std::string why) { events.input_lost(std::move(why)); });
  return {};
}

void say(const std::string& text) {
  const std::string line = "meshbus: " + text + "\n";
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, 200) == 1) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace meshbus::cli

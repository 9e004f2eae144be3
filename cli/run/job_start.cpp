#include "cli/run/job_start.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/preflight.h"
#include "cli/run/rank_map.h"
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

/// The ranks of the job on so many hosts.
std::uint64_t job_size(const RunArguments& arguments, std::uint64_t hosts) {
  if (arguments.ranks.total) return *arguments.ranks.total;
  return hosts * (arguments.ranks.per_host ? arguments.ranks.per_host->num_ranks() : 1);
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

/// Starts or finds the hosts, and with --preflight leaves out those that fail.
Result<void> start_hosts(const RunArguments& arguments, JobHosts& hosts) {
  if (!arguments.preflight) return hosts.start(arguments);
  const bool is_before = arguments.from == RunArguments::From::addresses;
  auto failed = is_before ? preflight(arguments, hosts) : Result<std::vector<HostAddr>>();
  if (!failed) return fail(failed.error());
  if (is_before && !arguments.has_spares()) {
    if (auto enough = hosts.leave_out(*failed); !enough) return enough;
  }
  if (auto started = hosts.start(arguments); !started) return started;
  if (!is_before) failed = preflight(arguments, hosts);
  if (!failed) return fail(failed.error());
  return hosts.leave_out(*failed);
}

/// Whole lines on stderr, unless nobody reads them.
void say_lines(const std::string& lines) {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (!lines.empty() && ::poll(&ready, 1, 200) == 1) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, lines.data(), lines.size());
}

void show_bindings(const ProcMesh& mesh, bool shows_map) {
  if (shows_map) say_lines(rank_map_text(mesh.ref(), mesh.bindings()));
  say_lines(binding_notes_text(mesh.bindings()));
}

/// Refuses what can be refused before anything is started, then starts or finds the hosts.
Result<void> prepare(const RunArguments& arguments, JobHosts& hosts, JobParts& parts) {
  if (auto found = hosts.find(arguments); !found) return found;
  for (const auto& warning : hosts.context().warnings()) say(warning);
  if (auto fine = Name::make(mesh_name(arguments)); !fine)
    return fail(fine.error().within("--name"));
  const auto on_hosts = hosts.most();
  if (auto problem = size_problem(arguments.ranks, on_hosts); !problem.empty())
    return fail(ErrorCode::configuration_error, std::move(problem));
  const auto size = job_size(arguments, on_hosts);
  if (auto readers = input_ranks(arguments, size); !readers) return fail(readers.error());
  if (const auto mpi = MpiJob::choose(arguments, size); !mpi) return fail(mpi.error());
  auto started = start_hosts(arguments, hosts);
  parts.is_hosts_fault = !started;
  return started;
}

Handlers make_handlers(RunEvents& events, JobParts& parts) {
  Handlers handlers;
  handlers.on_failure = [&events](const RankReport& rank) { events.failed(rank); };
  handlers.on_end = [&events](const MeshOutcome&) { events.ended(); };
  handlers.on_state = [&events](const RankReport& rank) {
    if (rank.step != StopStep::none && !rank.is_restarting) events.stopped(rank.rank);
    if (rank.is_terminal()) events.wake();
  };
  handlers.on_trouble = [&events](const RankReport& rank) {
    if (rank.trouble == Trouble::frozen) events.frozen(rank);
  };
  handlers.on_restart = [](const RestartReport& restart) { say(words_of(restart)); };
  handlers.on_output = [&events, &writer = parts.writer](std::uint64_t rank, Stream stream,
                                                         std::string_view bytes) {
    events.wrote();
    if (!writer->write(rank, stream, bytes)) events.unwritable(writer->error());
  };
  return handlers;
}

}  // namespace

Result<void> start_job(const RunArguments& arguments, RunEvents& events, JobHosts& hosts,
                       JobParts& parts) {
  if (hosts.attempt() == 0) {
    if (auto prepared = prepare(arguments, hosts, parts); !prepared) return prepared;
  }
  if (auto chosen = hosts.choose(); !chosen) {
    parts.is_hosts_fault = true;
    return chosen;
  }
  const std::string name = mesh_name(arguments);
  const std::uint64_t on_hosts = hosts.chosen().hosts().size();
  const std::uint64_t size = job_size(arguments, on_hosts);
  // The rest of stdin is not for a later attempt: its ranks read /dev/null.
  auto readers =
      hosts.attempt() == 0 ? input_ranks(arguments, size) : Result<std::vector<std::uint64_t>>();
  if (!readers) return fail(readers.error());
  const auto mpi = MpiJob::choose(arguments, size);
  if (!mpi) return fail(mpi.error());

  auto spec = make_spec(arguments, hosts.context());
  if (!spec) return fail(spec.error());
  parts.grace = spec->grace.value_or(parts.grace);
  spec->input_ranks = to_rank_set(*readers);
  spec->environment.emplace_back("MESHBUS_JOB_ATTEMPT", std::to_string(hosts.attempt()));

  if (*mpi) {
    auto job = MpiJob::start(hosts.chosen(), name, size, **mpi, events);
    if (!job) return fail(job.error());
    parts.mpi = std::move(*job);
    parts.mpi->wrap(*spec);
  }

  if (arguments.torch) {
    if (const auto note = threads_note(*spec)) say(*note);
    wrap_torch(*spec, arguments, std::min<std::uint64_t>(on_hosts, size));
  }

  const auto extent = mesh_extent(arguments, hosts.chosen().ref(), size);
  if (!extent) return fail(extent.error());
  parts.writer = std::make_unique<OutputWriter>(
      arguments.no_prefix ? std::vector<std::string>() : make_prefixes(name, *extent),
      [&events](bool is_blocked) { events.blocked(is_blocked); });
  parts.is_spawning = true;
  auto mesh =
      arguments.ranks.per_host
          ? hosts.chosen().spawn(name, *arguments.ranks.per_host, std::move(*spec),
                                 make_handlers(events, parts))
          : hosts.chosen().spawn_n(name, size, std::move(*spec), make_handlers(events, parts));
  if (!mesh) return fail(mesh.error());
  parts.mesh = std::make_unique<ProcMesh>(std::move(*mesh));
  show_bindings(*parts.mesh, arguments.ranks.shows_map);
  if (!readers->empty())
    parts.pump = std::make_unique<InputPump>(
        *parts.mesh, *readers, [&events](std::string why) { events.input_lost(std::move(why)); });
  return {};
}

void say(const std::string& text) {
  say_lines("meshbus: " + text + "\n");
}

}  // namespace meshbus::cli

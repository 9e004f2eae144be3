#include "cli/run/role_start.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/job_plan.h"
#include "cli/run/mpi_choice.h"
#include "cli/run/preflight.h"
#include "cli/run/rank_map.h"
#include "cli/run/ready_lines.h"
#include "cli/run/restart_settings.h"
#include "cli/run/role_ports.h"
#include "cli/run/role_resize.h"
#include "cli/run/run_report.h"
#include "cli/run/say.h"
#include "cli/run/torch_job.h"
#include "common/base/quantity.h"
#include "common/security/token.h"

namespace meshbus::cli {
namespace {

Result<ProcSpec> make_spec(const RoleArguments& role, const Context& context) {
  ProcSpec spec = role.ranks.make_spec(role.command);
  spec.output = OutputMode::stream;
  spec.wait_ready = false;
  spec.restart = role.restart;
  if (!role.ranks.grace) {
    if (auto grace = context.setting("terminate.grace")) {
      if (auto duration = parse_duration(*grace)) spec.grace = *duration;
    }
  }
  return spec;
}

/// Starts or finds the hosts, and with --preflight leaves out those that fail.
Result<void> start_hosts(const RunArguments& run, JobHosts& hosts) {
  if (!run.preflight) return hosts.start(run);
  // Hosts that are waited for cannot be examined before they are there.
  const bool is_before = run.from == RunArguments::From::addresses && !run.wait_hosts;
  auto failed = is_before ? preflight(run, hosts) : Result<std::vector<HostAddr>>();
  if (!failed) return fail(failed.error());
  if (is_before && !run.has_spares()) {
    if (auto enough = hosts.leave_out(*failed); !enough) return enough;
  }
  if (auto started = hosts.start(run); !started) return started;
  if (!is_before) failed = preflight(run, hosts);
  if (!failed) return fail(failed.error());
  return hosts.leave_out(*failed);
}

void show_bindings(const ProcMesh& mesh, bool shows_map) {
  if (shows_map) say_lines(rank_map_text(mesh.ref(), mesh.bindings()));
  say_lines(binding_notes_text(mesh.bindings()));
}

/// Whether the ranks of a lost host move to a spare, and the others run on.
bool moves_ranks(const RunArguments& run, const RoleArguments& role) {
  return run.use && role.restart.on != RestartPolicy::On::never && role.restart.gang == Gang::one;
}

/// Refuses what one role cannot be on so many hosts of the job.
Result<void> check_role(const RunArguments& run, const RoleArguments& role, std::uint64_t hosts) {
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::configuration_error, place_of(run, role) + why);
  };
  if (auto fine = Name::make(mesh_name(role)); !fine) return fail(fine.error().within("--name"));
  for (const auto number : role.hosts) {
    if (number >= hosts)
      return refuse("there is no host " + std::to_string(number) + " for --on; the job has " +
                    std::to_string(hosts) + (hosts == 1 ? " host" : " hosts") +
                    ", numbered from 0");
  }
  const auto on_hosts = role.hosts.empty() ? hosts : role.hosts.size();
  if (auto problem = size_problem(role.ranks, on_hosts); !problem.empty())
    return refuse(std::move(problem));
  const auto size = role_size(role, on_hosts);
  if (role.torch && moves_ranks(run, role))
    return refuse(
        "--torch with --use and --restart needs --gang all: a rank of a torch job that starts "
        "again "
        "alone on a spare does not find the others");
  if (&role == &run.roles.front()) {
    if (auto readers = input_ranks(run, size); !readers) return fail(readers.error());
  }
  if (const auto mpi = choose_mpi(role, size); !mpi)
    return run.has_roles ? fail(mpi.error().within(mesh_name(role))) : fail(mpi.error());
  return {};
}

/// `name`: in front of what is said of restarts; empty: nothing is.
Handlers make_handlers(const RoleArguments& role, const std::string& name, std::uint64_t size,
                       RunEvents& events, RoleParts& parts) {
  Handlers handlers;
  handlers.on_failure = [&events](const RankReport& rank) { events.failed(rank); };
  handlers.on_end = [&events](const MeshOutcome&) { events.ended(); };
  const bool has_text = !role.ready_text.empty();
  const auto lines = std::make_shared<ReadyLines>(role.ready_text, size);
  handlers.on_state = [&events, has_text, lines, restarts = std::vector<std::uint64_t>(size)](
                          const RankReport& rank) mutable {
    // What the incarnation before still wrote after its end says nothing of this one.
    if (rank.rank >= restarts.size()) restarts.resize(rank.rank + 1);
    if (std::exchange(restarts[rank.rank], rank.restarts) < rank.restarts) {
      lines->forget(rank.rank);
      events.unready(rank.rank);
    }
    if (rank.step != StopStep::none && !rank.is_restarting) events.stopped(rank.rank);
    if (rank.is_terminal()) events.wake();
    const bool is_done = rank.state == ProcState::stopped && !rank.is_failure();
    // With --ready-text an end is not enough: only the text says it.
    if (!has_text && (is_done || rank.state == ProcState::ready)) events.ready(rank.rank);
  };
  handlers.on_resize = [&events](const ResizeReport& report) { events.resized(report.size); };
  handlers.on_trouble = [&events](const RankReport& rank) {
    if (rank.trouble == Trouble::frozen) events.frozen(rank);
  };
  handlers.on_restart = [&events, lines,
                         prefix = name.empty() ? "" : name + " "](const RestartReport& restart) {
    for (const auto& block : restart.ranks) {
      for (auto rank = block.begin; rank < block.end; ++rank) {
        lines->forget(rank);
        events.unready(rank);
      }
    }
    say(prefix + words_of(restart));
  };
  handlers.on_move = [prefix = name.empty() ? "" : name + " "](const MoveReport& move) {
    const bool is_one = move.ranks.size() == 1 && move.ranks.front().size() == 1;
    say(prefix + (is_one ? "rank " : "ranks ") + to_string(move.ranks) + (is_one ? " is" : " are") +
        " started on host " + move.to.to_string() + " instead of " + move.from.to_string());
  };
  handlers.on_output = [&events, &writer = parts.writer, lines](std::uint64_t rank, Stream stream,
                                                                std::string_view bytes) {
    events.wrote();
    if (lines->is_ready_now(rank, bytes)) events.ready(rank);
    if (!writer->write(rank, stream, bytes)) events.unwritable(writer->error());
  };
  return handlers;
}

}  // namespace

Result<void> prepare_job(const RunArguments& run, JobHosts& hosts, bool& is_hosts_fault) {
  if (auto found = hosts.find(run); !found) return found;
  for (const auto& warning : hosts.context().warnings()) say(warning);
  for (const auto& role : run.roles) {
    if (auto fine = check_role(run, role, hosts.most()); !fine) return fine;
  }
  auto started = start_hosts(run, hosts);
  is_hosts_fault = !started;
  return started;
}

Result<std::vector<RoleAddress>> place_roles(const RunArguments& run, JobHosts& hosts,
                                             const std::vector<RoleParts*>& parts) {
  std::vector<RoleAddress> places;
  RolePorts ports;
  const auto uuid = random_u64();
  for (std::size_t number = 0; number < run.roles.size(); ++number) {
    const auto& role = run.roles[number];
    auto own = hosts.some(role.hosts);
    if (!own) return fail(own.error());
    parts[number]->hosts = std::move(*own);
    HostMesh& mesh = parts[number]->hosts ? *parts[number]->hosts : hosts.chosen();
    const auto extent = mesh_extent(role, mesh.ref(), role_size(role, mesh.hosts().size()));
    if (!extent) return fail(extent.error());
    auto name = Name::make(mesh_name(role), uuid);
    if (!name) return fail(name.error());
    auto ranks = ProcMeshRef::make(std::move(*name), mesh.hosts(), *extent);
    if (!ranks) return fail(ranks.error());
    RoleAddress place{mesh_name(role), std::move(*ranks), 0};
    if (run.has_roles && place.ranks.root_ranks() > 0) {
      auto port = ports.find(role_machine(place.ranks.hosts().front()),
                             [&mesh] { return mesh.free_port(0); });
      if (!port) return fail(port.error());
      place.port = *port;
    }
    places.push_back(std::move(place));
  }
  return places;
}

Result<void> start_role(const RunArguments& run, std::size_t number,
                        const std::vector<RoleAddress>& places, JobHosts& hosts, RunEvents& events,
                        RoleParts& parts) {
  const RoleArguments& role = run.roles[number];
  HostMesh& mesh_hosts = parts.hosts ? *parts.hosts : hosts.chosen();
  const std::string name = mesh_name(role);
  const std::uint64_t on_hosts = mesh_hosts.hosts().size();
  const std::uint64_t size = role_size(role, on_hosts);
  // The rest of stdin is not for a later attempt: its ranks read /dev/null.
  auto readers = number == 0 && hosts.attempt() == 0 ? input_ranks(run, size)
                                                     : Result<std::vector<std::uint64_t>>();
  if (!readers) return fail(readers.error());
  const auto mpi = choose_mpi(role, size);
  if (!mpi) return fail(mpi.error());

  auto spec = make_spec(role, hosts.context());
  if (!spec) return fail(spec.error());
  parts.grace = spec->grace.value_or(parts.grace);
  if (moves_ranks(run, role)) spec->spares = hosts.spares();
  spec->uuid = places[number].ranks.mesh().uuid();
  spec->input_ranks = to_rank_set(*readers);
  spec->environment.emplace_back("MESHBUS_JOB_ATTEMPT", std::to_string(hosts.attempt()));
  if (run.has_roles) {
    for (auto& variable : role_variables(places, number))
      spec->environment.push_back(std::move(variable));
  }

  if (*mpi) {
    auto job = MpiJob::start(
        mesh_hosts, name, size, **mpi,
        {.on_notice = [&events](const mpi::Notice& notice) { events.noticed(notice); },
         .on_lost_helper = [&events](const RankReport& helper) { events.helper_lost(helper); }});
    if (!job) return fail(job.error());
    parts.mpi = std::move(*job);
    parts.mpi_hosts = &mesh_hosts;
    parts.mpi->wrap(*spec);
  }

  if (role.torch) {
    if (const auto note = threads_note(*spec)) say(*note);
    wrap_torch(*spec, role, std::min<std::uint64_t>(on_hosts, size));
  }

  const auto& extent = places[number].ranks.region().extent();
  parts.writer = std::make_unique<OutputWriter>(
      run.no_prefix ? std::vector<std::string>() : make_prefixes(name, extent),
      [&events](bool is_blocked) { events.blocked(is_blocked); });
  parts.writer->set_later_prefix(
      [name, extent](std::uint64_t rank) { return later_prefix(name, extent, rank); });
  parts.is_spawning = true;
  const auto said = run.has_roles ? name : std::string();
  auto handlers = make_handlers(role, said, size, events, parts);
  handlers.on_resize_order = [resize = RoleResize(role, said, hosts.spares(), events, parts)](
                                 const ResizeOrder& order) { return resize.carry_out(order); };
  auto mesh =
      role.ranks.per_host
          ? mesh_hosts.spawn(name, *role.ranks.per_host, std::move(*spec), std::move(handlers))
          : mesh_hosts.spawn_n(name, size, std::move(*spec), std::move(handlers));
  if (!mesh) return fail(mesh.error());
  parts.mesh = std::make_unique<ProcMesh>(std::move(*mesh));
  parts.is_started = true;
  show_bindings(*parts.mesh, role.ranks.shows_map);
  if (!readers->empty())
    parts.pump = std::make_unique<InputPump>(
        *parts.mesh, *readers, [&events](std::string why) { events.input_lost(std::move(why)); });
  return {};
}

}  // namespace meshbus::cli

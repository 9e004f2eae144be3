#include "meshbus/host_mesh.h"

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <set>

#include "client/src/base/time_left.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/ask_agent.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/gateway_search.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/host_mesh/mesh_stop.h"
#include "common/base/rank_limit.h"
#include "meshbus/point.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// For the answer of a host that is known to have ended.
constexpr std::chrono::milliseconds kAskEnded{300};
/// How often hosts are tried that are waited for.
constexpr std::chrono::milliseconds kTryAgain{250};

Result<void> check_complete(const std::vector<HostReport>& reports) {
  std::string problems;
  auto code = ErrorCode::host_unreachable;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const auto& report = reports[rank];
    if (report.code == ErrorCode::none) continue;
    // What will not mend by trying again comes first.
    const bool is_lasting = report.code == ErrorCode::configuration_error ||
                            report.code == ErrorCode::version_mismatch ||
                            report.code == ErrorCode::unauthorised;
    if (report.code == ErrorCode::identity_mismatch ||
        (is_lasting && code == ErrorCode::host_unreachable))
      code = report.code;
    problems += (problems.empty() ? "" : "; ") +
                ("host " + std::to_string(rank) + " (" + report.host.to_string() + "): ") +
                report.problem;
  }
  if (problems.empty()) return {};
  return fail(code, std::move(problems));
}

}  // namespace

std::vector<HostReport> ask_hosts(Connection& connection, const std::vector<HostAddr>& hosts,
                                  std::chrono::milliseconds deadline,
                                  const std::set<HostAddr>& ended) {
  const auto start = Clock::now();
  const auto limit_of = [&](const HostAddr& host) {
    return ended.contains(host) ? std::min(deadline, kAskEnded) : deadline;
  };
  std::vector<Connection::Answer> answers;
  answers.reserve(hosts.size());
  for (const auto& host : hosts)
    answers.push_back(
        connection.ask(Destination::to_agent(host), wire::GetHostT(), limit_of(host)));
  std::vector<HostReport> reports;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto answer = await_agent(connection, hosts[i], wire::GetHostT(), std::move(answers[i]),
                                    start + limit_of(hosts[i]));
    HostReport report;
    report.host = hosts[i];
    if (!answer) {
      report.code = answer.error().code();
      report.problem = answer.error().detail();
    } else if (const auto* const state = answer->body_as<wire::HostState>(); state == nullptr) {
      report.code = ErrorCode::malformed_message;
      report.problem = "it answered " + answer->body_name() + " to GetHost";
    } else if (text_of(state->host()) != hosts[i].to_string()) {
      report.code = ErrorCode::identity_mismatch;
      report.problem = "a host that calls itself " + text_of(state->host()) + " answers there";
    } else {
      report = to_report(hosts[i], *state);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

Result<ConnectionUse> reach_hosts(const std::shared_ptr<ContextCore>& core, const HostMeshRef& ref,
                                  const AttachOptions& options) {
  const auto& hosts = ref.hosts();
  auto search = find_gateway(core, hosts, options.deadline);
  std::vector<HostReport> reports;
  if (search.connection.get() != nullptr) {
    core->run([&] { search.connection->hosts().add(hosts); });
    // A caller that only looks asks them all anyway, and must not wait twice for a dead one.
    if (!options.require_all) return std::move(search.connection);
    // Those that could not be reached directly are not asked again: the gateway stands in no better
    // place.
    std::vector<HostAddr> to_ask;
    for (const auto& host : hosts) {
      if (!search.problems.contains(host)) to_ask.push_back(host);
    }
    reports = ask_hosts(*search.connection.get(), to_ask, options.deadline);
  }
  std::vector<HostReport> all;
  auto asked = reports.begin();
  for (const auto& host : hosts) {
    const auto problem = search.problems.find(host);
    if (problem == search.problems.end() && asked != reports.end()) {
      all.push_back(std::move(*asked++));
      continue;
    }
    HostReport report;
    report.host = host;
    report.code =
        problem == search.problems.end() ? ErrorCode::host_unreachable : problem->second.code();
    report.problem = problem == search.problems.end()
                         ? "not tried: no other host of the mesh could be reached"
                         : problem->second.detail();
    all.push_back(std::move(report));
  }
  if (auto complete = check_complete(all); !complete) return fail(complete.error());
  return std::move(search.connection);
}

HostMesh::HostMesh(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostMesh::HostMesh(HostMesh&&) noexcept = default;
HostMesh& HostMesh::operator=(HostMesh&&) noexcept = default;
HostMesh::~HostMesh() = default;

Result<HostMesh> HostMesh::attach(Context& context, std::string_view name,
                                  std::vector<HostAddr> hosts, AttachOptions options) {
  auto parsed = Name::parse(name);
  if (!parsed) return fail(parsed.error());
  auto extent = Extent::make({{"host", hosts.size()}});
  if (!extent) return fail(extent.error());
  auto ref = HostMeshRef::make(std::move(*parsed), Region(*extent), std::move(hosts));
  if (!ref) return fail(ref.error());
  return attach(context, *ref, options);
}

Result<HostMesh> HostMesh::attach(Context& context, const HostMeshRef& ref, AttachOptions options) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  if (ref.hosts().empty())
    return fail(ErrorCode::configuration_error,
                "host mesh " + ref.name().to_string() + " has no host to attach to");
  const auto until = Clock::now() + options.wait;
  auto connection = reach_hosts(core, ref, options);
  while (!connection && connection.error().code() == ErrorCode::host_unreachable &&
         Clock::now() < until) {
    std::this_thread::sleep_for(std::min<Clock::duration>(kTryAgain, until - Clock::now()));
    connection = reach_hosts(core, ref, options);
  }
  if (!connection) return fail(connection.error().within("attaching to " + ref.name().to_string()));
  return HostMesh(std::make_unique<Impl>(std::move(*connection), ref));
}

const HostMeshRef& HostMesh::ref() const noexcept {
  // A mesh without hosts stands for that of an object that was moved from.
  static const auto none =
      *HostMeshRef::make(*Name::make("moved"), Region(*Extent::make({{"host", 0}})), {});
  return impl_ == nullptr ? none : impl_->ref();
}
const std::vector<HostAddr>& HostMesh::hosts() const noexcept {
  return ref().hosts();
}

namespace {

Result<ProcMesh> spawn_on(HostMesh& hosts, HostMesh::Impl& impl, std::string_view base,
                          const Extent& extent, ProcSpec spec, Handlers handlers) {
  // Before anything is made for each rank.
  if (const auto most = kMostRanksPerHost * hosts.hosts().size(); extent.num_ranks() > most)
    return fail(ErrorCode::configuration_error,
                "spawn of " + std::string(base) + ": " + std::to_string(extent.num_ranks()) +
                    " ranks on " + std::to_string(hosts.hosts().size()) +
                    " hosts, which run at most " + std::to_string(kMostRanksPerHost) + " each");
  const auto start = [&](ProcSpec what, Handlers how) {
    return spawn_procs(impl.core(), impl.use(), hosts.hosts(), impl.ends_with_us(), base, extent,
                       std::move(what), std::move(how));
  };
  if (spec.mpi == Mpi::none) return start(std::move(spec), std::move(handlers));
  return spawn_mpi(hosts, base, extent.num_ranks(), std::move(spec), std::move(handlers), start);
}

}  // namespace

Result<ProcMesh> HostMesh::spawn(std::string_view base, const Extent& per_host, ProcSpec spec,
                                 Handlers handlers) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto extent = concat(ref().region().extent(), per_host);
  if (!extent) return fail(extent.error().within("spawn of " + std::string(base)));
  return spawn_on(*this, *impl_, base, *extent, std::move(spec), std::move(handlers));
}

Result<ProcMesh> HostMesh::spawn_n(std::string_view base, std::uint64_t ranks, ProcSpec spec,
                                   Handlers handlers) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (hosts().empty()) {
    if (ranks != 0)
      return fail(ErrorCode::configuration_error,
                  "there is no host for " + std::to_string(ranks) + " ranks");
    return spawn(base, {}, std::move(spec), std::move(handlers));
  }
  if (ranks % hosts().size() == 0 && !ref().region().find("proc")) {
    auto per_host = Extent::make({{"proc", ranks / hosts().size()}});
    if (!per_host) return fail(per_host.error());
    return spawn(base, *per_host, std::move(spec), std::move(handlers));
  }
  auto extent = Extent::make({{"proc", ranks}});
  if (!extent) return fail(extent.error());
  return spawn_on(*this, *impl_, base, *extent, std::move(spec), std::move(handlers));
}

Result<std::vector<HostReport>> HostMesh::states(std::chrono::milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  const auto& known = impl_->connection().hosts();
  std::set<HostAddr> ended;
  impl_->core()->run([&] {
    for (const auto& host : hosts()) {
      if (known.has_ended(host)) ended.insert(host);
    }
  });
  auto reports = ask_hosts(impl_->connection(), hosts(), deadline, ended);
  impl_->core()->run([&] {
    for (auto& report : reports)
      report.has_ended = report.code != ErrorCode::none && known.has_ended(report.host);
  });
  return reports;
}

Result<MeshListing> HostMesh::meshes(std::chrono::milliseconds deadline, bool with_usage) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  const auto end =
      Clock::now() + std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  struct Page {
    HostAddr host;
    std::string after;
    Connection::Answer answer = {};
  };
  const auto ask = [&](Page page) {
    wire::ListMeshesT list;
    list.after = page.after;
    list.usage = with_usage;
    page.answer =
        impl_->connection().ask(Destination::to_agent(page.host), std::move(list), left_until(end));
    return page;
  };
  std::deque<Page> pages;
  for (const auto& host : impl_->distinct_hosts()) pages.push_back(ask({host, {}}));
  MeshListing listing;
  std::map<std::string, MeshReport> meshes;
  for (; !pages.empty(); pages.pop_front()) {
    HostReport problem;
    problem.host = pages.front().host;
    const auto answer = pages.front().answer.get();
    const auto* const list = answer ? answer->body_as<wire::MeshList>() : nullptr;
    if (list == nullptr) {
      problem.code = answer ? ErrorCode::malformed_message : answer.error().code();
      problem.problem = answer ? "it answered " + answer->body_name() + " to ListMeshes"
                               : answer.error().detail();
      listing.unreachable.push_back(std::move(problem));
      continue;
    }
    if (list->meshes() == nullptr) continue;
    if (list->more() && list->meshes()->size() > 0) {
      const auto last = list->meshes()->Get(list->meshes()->size() - 1)->mesh()->str();
      if (last > pages.front().after) pages.push_back(ask({problem.host, last}));
    }
    for (const auto* mesh : *list->meshes()) {
      const auto known = meshes.find(mesh->mesh()->str());
      if (known != meshes.end()) {
        merge_into(known->second, *mesh);
        continue;
      }
      auto report = to_report(*mesh);
      if (report) {
        meshes.emplace(report->name, std::move(*report));
        continue;
      }
      problem.code = report.error().code();
      problem.problem = report.error().detail();
      listing.unreachable.push_back(problem);
    }
  }
  for (auto& [name, mesh] : meshes) listing.meshes.push_back(std::move(mesh));
  return listing;
}

Result<std::vector<RankReport>> HostMesh::stop_mesh(std::string_view mesh, StopOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  const auto& config = impl_->core()->config();
  const auto grace = options.grace.value_or(config.duration(keys::terminate_grace));
  const auto limit = std::min<std::chrono::milliseconds>(
      options.deadline.value_or(grace + config.duration(keys::stop_idle)), std::chrono::hours(24));
  return std::make_shared<MeshStop>(*impl_->core(), impl_->connection(), impl_->distinct_hosts(),
                                    MeshStop::Order{.mesh = std::string(mesh),
                                                    .options = std::move(options),
                                                    .grace = grace,
                                                    .end = Clock::now() + limit})
      ->run();
}

Result<ShutdownSummary> HostMesh::shutdown(std::chrono::milliseconds deadline,
                                           std::optional<std::chrono::milliseconds> grace,
                                           std::string_view reason) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  return impl_->shutdown(deadline, grace, reason);
}

}  // namespace meshbus

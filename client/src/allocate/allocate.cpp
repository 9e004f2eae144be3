// Host meshes, and meshes of procs, that are made of allocations.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "client/src/allocate/host_ends.h"
#include "client/src/base/time_left.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "common/base/log.h"

namespace meshbus {
namespace {

/// What an agent has sent before the end of its host may still be in our socket.
constexpr std::chrono::milliseconds kLastReports{50};
/// The hosts are ready: they are asked, whatever of the time has gone already.
constexpr std::chrono::milliseconds kLeastTime{1000};
/// Between two tries to reach them, at first; twice as long each time.
constexpr std::chrono::milliseconds kReachPause{20};
constexpr std::chrono::milliseconds kLongestPause{500};
/// A broker that dies is replaced within less.
constexpr std::chrono::milliseconds kBackWithin{5000};

/// How one of the hosts has ended, if it has.
std::optional<std::string> find_end(HostEnds& ends, std::size_t hosts) {
  for (std::uint64_t rank = 0; rank < hosts; ++rank) {
    if (const auto how = ends.wait(rank, std::chrono::milliseconds(0)))
      return "host " + std::to_string(rank) + " has ended (" + *how + ")";
  }
  return std::nullopt;
}

/// Reaches hosts that have said that they are ready. One whose broker has died since then is there
/// again in a moment: tries again, for a while, unless a host has ended.
Result<ConnectionUse> reach_ready_hosts(const std::shared_ptr<ContextCore>& core,
                                        const HostMeshRef& hosts, HostEnds& ends,
                                        std::chrono::milliseconds deadline) {
  const auto limit = std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  const auto begin = std::chrono::steady_clock::now();
  const auto last_try = begin + std::min(limit, kBackWithin);
  for (auto pause = kReachPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto connection =
        reach_hosts(core, hosts, {.deadline = std::max(left_until(begin + limit), kReachPause)});
    if (connection) return connection;
    if (const auto end = find_end(ends, hosts.hosts().size()))
      return fail(connection.error().within(*end));
    if (connection.error().code() != ErrorCode::host_unreachable ||
        left_until(last_try).count() <= 0)
      return connection;
    ends.wait(0, std::min(pause, left_until(last_try)));
  }
}

Result<HostMesh> allocate_by(Allocator& allocator, Context& context, const Extent& extent,
                             std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  auto made = allocator.allocate(context, {.extent = extent, .on_event = {}});
  if (!made) return fail(made.error());
  return HostMesh::allocate(context, "hosts", std::move(*made),
                            std::max(kLeastTime, left_until(end)));
}

}  // namespace

Result<HostMesh> HostMesh::local(Context& context, HostOptions options) {
  const auto extent = Extent::make({{"host", 1}});
  if (!extent) return fail(extent.error());
  const auto limit = options.ready_limit;
  return allocate_by(*local_allocator(std::move(options)), context, *extent, limit);
}

Result<HostMesh> HostMesh::process(Context& context, const Extent& hosts, HostOptions options) {
  const auto limit = options.ready_limit;
  return allocate_by(*process_allocator(std::move(options)), context, hosts, limit);
}

Result<HostMesh> HostMesh::remote(Context& context, std::vector<RemoteHost> hosts,
                                  HostOptions options) {
  if (hosts.empty())
    return fail(ErrorCode::configuration_error, "there is no machine to start a host on");
  const auto extent = Extent::make({{"host", hosts.size()}});
  if (!extent) return fail(extent.error());
  const auto limit = options.ready_limit;
  return allocate_by(*remote_allocator(std::move(hosts), std::move(options)), context, *extent,
                     limit);
}

Result<HostMesh> HostMesh::allocate(Context& context, std::string_view base,
                                    std::unique_ptr<Allocation> allocation,
                                    std::chrono::milliseconds deadline) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) {
    // In a forked child it is its parent's: only that may end it.
    if (fine.error().code() == ErrorCode::refused)
      new std::unique_ptr<Allocation>(std::move(allocation));
    return fail(fine.error());
  }
  if (allocation == nullptr)
    return fail(ErrorCode::configuration_error, "there is no allocation to make hosts of");
  auto name = Name::make(base);
  if (!name) return fail(name.error());
  auto ref = HostMeshRef::make(std::move(*name), Region(allocation->extent()), allocation->hosts());
  if (!ref) return fail(ref.error().within("hosts of an allocation"));
  if (ref->num_ranks() == 0)
    return HostMesh(std::make_unique<Impl>(core->connect_to_nobody(core), std::move(*ref),
                                           std::move(allocation)));
  auto connection = reach_ready_hosts(core, *ref, *allocation->ends(), deadline);
  if (!connection) return fail(connection.error().within("reaching " + ref->name().to_string()));
  allocation->ends()->listen([weak = std::weak_ptr(core), hosts = ref->hosts()](
                                 std::uint64_t rank, const HostEnds::End& end) {
    const auto& host = hosts[static_cast<std::size_t>(rank)];
    if (!end.is_proven) return log::warn("host " + host.to_string() + ": " + end.how);
    if (const auto there = weak.lock()) {
      there->post([there = there.get(), host, how = end.how] {
        there->reactor().after(kLastReports,
                               [there, host, how] { there->on_host_ended(host, how); });
      });
    }
  });
  return HostMesh(
      std::make_unique<Impl>(std::move(*connection), std::move(*ref), std::move(allocation)));
}

Result<HostMesh> HostMesh::take(Context& context, const HostMeshRef& ref, AttachOptions options) {
  options.require_all = true;
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  if (ref.num_ranks() == 0)
    return HostMesh(std::make_unique<Impl>(core->connect_to_nobody(core), ref));
  auto connection = reach_hosts(core, ref, options);
  const auto what = "taking " + ref.name().to_string();
  if (!connection) return fail(connection.error().within(what));
  auto mesh = std::make_unique<Impl>(std::move(*connection), ref);
  if (auto given = mesh->take_back(options.deadline); !given)
    return fail(given.error().within(what));
  mesh->own();
  return HostMesh(std::move(mesh));
}

Result<ProcMesh> ProcMesh::allocate(Context& context, std::string_view base,
                                    std::unique_ptr<Allocation> hosts, const Extent& per_host,
                                    ProcSpec spec, Handlers handlers) {
  auto mesh = HostMesh::allocate(context, "hosts", std::move(hosts));
  if (!mesh) return fail(mesh.error());
  auto procs = mesh->spawn(base, per_host, std::move(spec), std::move(handlers));
  if (procs) procs->impl_->hold(std::move(*mesh));
  return procs;
}

}  // namespace meshbus

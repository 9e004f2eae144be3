#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "client/src/monitors/mesh_monitor.h"
#include "meshbus/allocator.h"
#include "meshbus/host_mesh.h"

namespace meshbus {

class HostMesh::Impl {
 public:
  /// What becomes of the hosts when the mesh goes, if they are of no allocation.
  enum class Ownership : std::uint8_t { attached, taken };

  /// `allocation`: that they come from; null: they ran already.
  Impl(ConnectionUse connection, HostMeshRef ref, std::unique_ptr<Allocation> allocation = nullptr,
       Ownership ownership = Ownership::attached)
      : connection_(std::move(connection)),
        ref_(std::move(ref)),
        allocation_(std::move(allocation)),
        ownership_(ownership) {
    std::set<HostAddr> seen;
    for (const auto& host : ref_.hosts()) {
      if (seen.insert(host).second) distinct_hosts_.push_back(host);
    }
  }
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::shared_ptr<ContextCore>& core() const noexcept { return connection_.core(); }
  Connection& connection() const noexcept { return *connection_.get(); }
  const HostMeshRef& ref() const noexcept { return ref_; }
  /// Its procs need no lease: their hosts end with this process, by whatever way it goes.
  bool ends_with_us() const {
    return allocation_ != nullptr && !is_handed_over_ && allocation_->ends_with_launcher();
  }
  /// Those to be asked about what is on them: a host that stands in the mesh several times is there
  /// once.
  const std::vector<HostAddr>& distinct_hosts() const noexcept { return distinct_hosts_; }
  /// The first rank of that host.
  std::uint64_t rank_of(const HostAddr& host) const;
  /// "host 0 (tcp:h1:7420)"
  std::string describe(const HostAddr& host) const;
  /// Another use of the connection, for a mesh of procs.
  ConnectionUse use() const;

  /// A mesh whose take_over() has failed, and which may be ours all the same: its lease is renewed
  /// until drop_unclear(), or as long as this lives.
  void keep_unclear(std::shared_ptr<MeshMonitor> monitor);
  void drop_unclear(const std::string& mesh);

  Result<ShutdownSummary> shutdown(std::chrono::milliseconds deadline,
                                   std::optional<std::chrono::milliseconds> grace,
                                   std::string_view reason);
  Result<void> handover(const ProcId& controller, const HandoverOptions& options);
  bool is_handed_over() const noexcept { return is_handed_over_; }
  /// The hosts end with this mesh from now on.
  void own() { ownership_ = Ownership::taken; }
  /// Controllers that answer for these hosts give them to this launcher. Errors: what they say.
  Result<void> take_back(std::chrono::milliseconds deadline);

 private:
  /// Whether these hosts are this mesh's to give, by what they are. Errors: refused.
  Result<void> check_may_hand_over() const;
  /// What there is to say when they are handed over already. Success: to that controller.
  Result<void> check_handed_over(const ProcId& controller, std::chrono::milliseconds deadline);
  /// Tells all hosts to end, and does not wait.
  void order_shutdown();

  ConnectionUse connection_;
  HostMeshRef ref_;
  std::vector<HostAddr> distinct_hosts_;
  std::unique_ptr<Allocation> allocation_;
  Ownership ownership_;
  std::atomic<bool> is_handed_over_{false};
  std::mutex unclear_mutex_;
  std::map<std::string, std::shared_ptr<MeshMonitor>> unclear_;  // guarded by unclear_mutex_
  std::mutex shutdown_mutex_;
  std::optional<Result<ShutdownSummary>> shutdown_;  // guarded by shutdown_mutex_
};

/// Starts procs of a mesh of that extent on these hosts (HostMesh::spawn).
Result<ProcMesh> spawn_procs(const std::shared_ptr<ContextCore>& core, ConnectionUse connection,
                             const std::vector<HostAddr>& hosts, bool end_with_us,
                             std::string_view base, const Extent& extent, ProcSpec spec,
                             Handlers handlers);

/// The same for ProcSpec::mpi, with helpers on these hosts beside the procs.
Result<ProcMesh> spawn_mpi(HostMesh& hosts, std::string_view base, std::uint64_t ranks,
                           ProcSpec spec, Handlers handlers,
                           const std::function<Result<ProcMesh>(ProcSpec, Handlers)>& spawn);

/// Connects to all hosts of a mesh, through the first one that answers. Errors: as
/// HostMesh::attach().
Result<ConnectionUse> reach_hosts(const std::shared_ptr<ContextCore>& core, const HostMeshRef& ref,
                                  const AttachOptions& options);

/// A port that is free on that host now. Errors: those of the question.
Result<std::uint16_t> ask_free_port(Connection& connection, const HostAddr& host,
                                    std::chrono::milliseconds deadline);

/// GetHost to each of these hosts, by rank. An answer under another name is identity_mismatch.
/// `ended`: hosts that are known to have ended, which get less time. They are asked all the same,
/// for they may have been started again.
std::vector<HostReport> ask_hosts(Connection& connection, const std::vector<HostAddr>& hosts,
                                  std::chrono::milliseconds deadline,
                                  const std::set<HostAddr>& ended = {});

/// Hands hosts themselves over to a controller (HostMesh::handover), also those of another one.
/// Waits. Errors: what it, or an owner of them, says; the hosts that have not confirmed it.
Result<void> hand_hosts_over(Connection& connection, const std::vector<HostAddr>& hosts,
                             const ProcId& controller, const HandoverOptions& options);

/// Whether something listens there: a plain connect, without a word. Names are resolved; blocks as
/// long as that takes. Only for tcp and unix sockets; other addresses are taken to listen. Errors:
/// not_exist when the system there says that nobody listens, host_unreachable when nothing was
/// heard.
Result<void> probe(const HostAddr& host);

}  // namespace meshbus

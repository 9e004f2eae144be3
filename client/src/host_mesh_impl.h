#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/src/connection.h"
#include "client/src/context_core.h"
#include "client/src/host_process.h"
#include "meshbus/host_mesh.h"

namespace meshbus {

class HostMesh::Impl {
 public:
  /// `may_outlive_us`: of processes: their hosts are elsewhere, and may take a while to notice that this launcher's machine is gone.
  Impl(ConnectionUse connection, HostMeshRef ref, std::vector<std::shared_ptr<HostProcess>> processes, bool may_outlive_us = false)
      : connection_(std::move(connection)), ref_(std::move(ref)), processes_(std::move(processes)), may_outlive_us_(may_outlive_us) {
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
  bool has_processes() const noexcept { return !processes_.empty() && !may_outlive_us_; }
  /// Those to be asked about what is on them: a host that stands in the mesh several times is there once.
  const std::vector<HostAddr>& distinct_hosts() const noexcept { return distinct_hosts_; }
  /// "host 0 (tcp:h1:7420)"
  std::string describe(const HostAddr& host) const;
  /// Another use of the connection, for a mesh of procs.
  ConnectionUse use() const;

  Result<ShutdownSummary> shutdown(std::chrono::milliseconds deadline, std::optional<std::chrono::milliseconds> grace,
                                   std::string_view reason);

 private:
  ConnectionUse connection_;
  HostMeshRef ref_;
  std::vector<HostAddr> distinct_hosts_;
  /// One per host when this launcher has started them; otherwise none.
  std::vector<std::shared_ptr<HostProcess>> processes_;
  bool may_outlive_us_ = false;
  std::mutex shutdown_mutex_;
  std::optional<Result<ShutdownSummary>> shutdown_;  // guarded by shutdown_mutex_
};

/// Starts procs of a mesh of that extent on these hosts (HostMesh::spawn).
Result<ProcMesh> spawn_procs(const std::shared_ptr<ContextCore>& core, ConnectionUse connection, const std::vector<HostAddr>& hosts,
                             bool are_processes, std::string_view base, const Extent& extent, ProcSpec spec, Handlers handlers);

/// GetHost to each of these hosts, by rank. An answer under another name is identity_mismatch.
std::vector<HostReport> ask_hosts(Connection& connection, const std::vector<HostAddr>& hosts, std::chrono::milliseconds deadline);

/// Whether something listens there: a plain connect, without a word. Names are resolved; blocks as long as that takes. Only for tcp and
/// unix sockets; other addresses are taken to listen. Errors: not_exist when the system there says that nobody listens, host_unreachable
/// when nothing was heard.
Result<void> probe(const HostAddr& host);

}  // namespace meshbus

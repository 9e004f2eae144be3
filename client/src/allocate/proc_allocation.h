#pragma once

#include <memory>
#include <vector>

#include "client/src/context/context_core.h"
#include "client/src/launch/launched_host.h"
#include "meshbus/allocator.h"
#include "meshbus/proc_mesh.h"

namespace meshbus {

/// Hosts that are procs of a mesh on other hosts: the exit report of a proc is the end of its host.
class ProcAllocation final : public Allocation {
 public:
  /// All of the hosts are ready. `ends_with_us`: so do the outer hosts.
  ProcAllocation(std::shared_ptr<ContextCore> core, Extent extent, std::vector<HostAddr> hosts,
                 ProcMesh procs, bool ends_with_us, const LaunchedHost::Teller& tell);

  Result<void> stop(std::chrono::milliseconds deadline) override;
  bool ends_with_launcher() const override { return ends_with_us_; }

 private:
  std::shared_ptr<ContextCore> core_;  ///< The procs' own.
  ProcMesh procs_;
  bool ends_with_us_;
};

}  // namespace meshbus

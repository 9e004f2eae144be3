#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "client/src/context/context_core.h"
#include "client/src/launch/launched_host.h"
#include "meshbus/allocator.h"

namespace meshbus {

/// Hands events to the handler that wants them, on the handlers' thread. The Context has to be
/// there, or its reactor.
LaunchedHost::Teller teller(ContextCore& core, const AllocationSpec& spec);

/// Hosts behind processes of this one: wardens on this machine, or commands that reach another one.
class ProcessAllocation final : public Allocation {
 public:
  enum class Where : std::uint8_t { here, elsewhere };

  /// All of the processes are ready; from now on they are watched.
  ProcessAllocation(std::shared_ptr<ContextCore> core, Extent extent,
                    std::vector<std::shared_ptr<LaunchedHost>> processes, Where where,
                    const LaunchedHost::Teller& tell);
  ~ProcessAllocation() override;

  Result<void> stop(std::chrono::milliseconds deadline) override;
  /// Hosts elsewhere may take a while to notice that this launcher's machine is gone.
  bool ends_with_launcher() const override { return where_ == Where::here; }
  Result<void> release() override;
  bool can_release() const override { return where_ == Where::here; }

 private:
  std::shared_ptr<ContextCore> core_;
  std::vector<std::shared_ptr<LaunchedHost>> processes_;
  Where where_;
};

}  // namespace meshbus

#pragma once

#include <cstdint>
#include <string>

#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/warden_report.h"
#include "common/bus/bus.h"
#include "wire/forward.h"

namespace meshbus::host {

/// What a host says of itself and of its machine (wire::HostState). Lives on the reactor's thread.
class HostFacts {
 public:
  struct Options {
    std::string host;
    std::string containment;
    std::uint64_t incarnation = 0;
  };
  /// All but the options outlive it.
  HostFacts(Bus& bus, MeshProcs& procs, const WardenReport& warden, Options options);

  const Options& options() const noexcept { return options_; }
  /// As it is now.
  wire::HostStateT make() const;

 private:
  Bus& bus_;
  MeshProcs& procs_;
  const WardenReport& warden_;
  Options options_;
  std::int64_t started_ns_;
  std::string cgroup_;
};

}  // namespace meshbus::host

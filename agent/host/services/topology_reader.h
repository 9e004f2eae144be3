#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "agent/host/services/helper_run.h"
#include "agent/topology/topology.h"

namespace meshbus::host {

/// Asks meshbus-topology what this host may use, each time anew: cgroups change. Requests that come
/// while it looks share its answer. Lives on the reactor's thread.
class TopologyReader {
 public:
  using Done = std::function<void(const Result<topology::Topology>&)>;

  /// `reactor` outlives it.
  explicit TopologyReader(Reactor& reactor) : reactor_(reactor) {}

  /// `done` is called from a later turn, or at once when the program cannot be started. Errors:
  /// refused (this host was built without hwloc), timeout, io_error.
  void read(Done done);

 private:
  void on_done(const Result<std::string>& output);

  Reactor& reactor_;
  std::unique_ptr<HelperRun> run_;
  std::vector<Done> waiting_;
};

}  // namespace meshbus::host

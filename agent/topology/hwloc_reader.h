#pragma once

#include <string>

#include "agent/topology/topology.h"

namespace meshbus::topology {

/// Where the topology comes from. Neither: this machine, or what hwloc's own variables name
/// (HWLOC_XMLFILE, HWLOC_SYNTHETIC).
struct Source {
  std::string xml = {};        ///< A file that `lstopo --of xml` wrote.
  std::string synthetic = {};  ///< A description like "numa:2 core:4 pu:2".
};

/// Errors: io_error.
Result<Topology> read_topology(const Source& source);

}  // namespace meshbus::topology

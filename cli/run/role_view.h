#pragma once

#include <string>
#include <vector>

#include "cli/run/run_events.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// A role whose ranks are up, as a look at its ranks needs it.
struct RoleView {
  /// Empty: it is the only one.
  std::string name;
  const ProcMesh& mesh;
  const RunEvents& events;
};
/// The roles that are up, in the order of the job.
using RoleViews = std::vector<RoleView>;

}  // namespace meshbus::cli

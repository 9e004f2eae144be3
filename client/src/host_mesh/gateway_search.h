#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "meshbus/address.h"

namespace meshbus {

/// What came of trying to reach hosts directly.
struct GatewaySearch {
  ConnectionUse connection;
  /// Why hosts cannot be reached.
  std::map<HostAddr, Error> problems;
};

/// Connects to the first host that answers. Errors of all when none does.
GatewaySearch find_gateway(const std::shared_ptr<ContextCore>& core,
                           const std::vector<HostAddr>& hosts, std::chrono::milliseconds deadline);

/// A way to these hosts for a question: a connection that knows one of them; otherwise a new one to
/// the first that answers within half of the time; otherwise any that the Context has. No
/// connection: none of them can be reached, for the reasons in `problems`.
GatewaySearch find_way(const std::shared_ptr<ContextCore>& core, const std::vector<HostAddr>& hosts,
                       std::chrono::milliseconds deadline);

}  // namespace meshbus

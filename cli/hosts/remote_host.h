#pragma once

#include <optional>

#include "agent/warden/warden.h"

namespace meshbus::cli {

/// For `meshbus host --remote`: reads on stdin what a launcher elsewhere says
/// (client/src/launch/remote_start.h), answers on stdout, and writes what came of it into
/// `options`: a host with keys, on an address that its starter and the other hosts reach, whose
/// lifeline is stdin. When it cannot be (it has been said on stdout, for the launcher): the exit
/// code.
std::optional<int> prepare_remote(WardenOptions& options);

}  // namespace meshbus::cli

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "wire/ranks_generated.h"

namespace meshbus::host {

/// Why procs are stopped, at whose request, and how long they may take.
struct StopOrder {
  std::string reason;
  std::string requester;
  std::chrono::milliseconds grace{0};
  wire::Cause cause = wire::Cause::stopped;
  std::optional<std::uint64_t> because = {};  ///< The rank whose end is the reason.
};

}  // namespace meshbus::host

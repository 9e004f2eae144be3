#pragma once

#include <cstdint>
#include <optional>

#include "meshbus/result.h"

namespace meshbus::host {

/// Ports from `first` to `last`, both included.
struct PortRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

/// A port for rank 0 comes with the ones after it, for its next attempts: so many in all.
inline constexpr std::uint32_t kPortRun = 8;

/// Where ports can be had that no outgoing connection takes: below `taken`, or else above; nothing
/// when there is no room. Pure.
std::optional<PortRange> ports_outside(PortRange taken);

/// A TCP port of this machine that nothing uses now, on any address, nor the seven after it. It is
/// not reserved: the first socket that is bound to it gets it. Where possible, it is outside of the
/// range from which the kernel gives ports to outgoing connections. Errors: io_error.
Result<std::uint16_t> find_free_port();

}  // namespace meshbus::host

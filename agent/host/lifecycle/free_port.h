#pragma once

#include <cstdint>

#include "meshbus/result.h"

namespace meshbus::host {

/// A TCP port of this machine that nothing uses now, on any address. It is not reserved: the first
/// socket that is bound to it gets it. Errors: io_error.
Result<std::uint16_t> find_free_port();

}  // namespace meshbus::host

#pragma once

#include <cstdint>

#include "meshbus/result.h"

namespace meshbus::host {

/// A TCP port of this machine that nothing uses now, on any address. Nobody keeps it: it is taken
/// by whoever binds it first. Errors: io_error.
Result<std::uint16_t> find_free_port();

}  // namespace meshbus::host

#pragma once

#include <cstdint>

namespace meshbus::hands {

/// Connects to that port of this network namespace's 127.0.0.1 and carries stdin there, and what
/// comes back to stdout; each half ends for itself. Returns the exit code; stderr says why there is
/// no connection.
int carry_connection(std::uint16_t port);

}  // namespace meshbus::hands

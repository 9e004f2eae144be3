#pragma once

#include <cstdint>

namespace meshbus {

/// Connections that were closed as soon as they had come, because this process has few descriptors left. From any thread.
///
/// libzmq 4.3 aborts when it cannot accept a connection on a unix socket for want of a descriptor, and spins on tcp: whoever makes enough
/// connections, Hello or not, would end the broker. So meshbus-broker has an accept4() of its own, which libzmq calls: it keeps a quarter
/// of the descriptors, 256 at most, for what is not accepted (links, files), and hangs up on newcomers when only these are left.
std::uint64_t connections_refused() noexcept;

}  // namespace meshbus
